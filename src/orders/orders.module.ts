import { Module } from '@nestjs/common';
import { CancelBatcher } from './cancel-batcher.js';
import { OrderCancellationService } from './order-cancellation.service.js';
import { OrderListReader } from './order-list.reader.js';
import { OrderListResponder } from './order-list.responder.js';
import { OrdersController } from './orders.controller.js';
import { OrdersRepository } from './orders.repository.js';
import { OrdersService } from './orders.service.js';
import { SnapshotReader } from './snapshot.reader.js';

@Module({
  controllers: [OrdersController],
  providers: [
    OrdersService,
    // Cancelling: the rule, its execution in batches, the statements.
    OrderCancellationService,
    CancelBatcher,
    OrdersRepository,
    // Listing.
    OrderListResponder,
    OrderListReader,
    SnapshotReader,
  ],
  exports: [OrdersRepository],
})
export class OrdersModule {}
