import { Module } from '@nestjs/common';
import { CancelBatcher } from './cancel-batcher.js';
import { ListCompaction } from './list/list-compaction.js';
import { ListTransactions } from './list/list-transaction.js';
import { ListVersions } from './list/list-versions.js';
import { OrderListReader } from './list/order-list.reader.js';
import { OrderListResponder } from './list/order-list.responder.js';
import { OrdersController } from './orders.controller.js';
import { OrdersRepository } from './orders.repository.js';
import { OrdersService } from './orders.service.js';

@Module({
  controllers: [OrdersController],
  providers: [
    // Cancelling: the rule, its execution in batches, the statements.
    OrdersService,
    CancelBatcher,
    OrdersRepository,
    // Listing.
    OrderListResponder,
    OrderListReader,
    ListVersions,
    ListCompaction,
    ListTransactions,
  ],
  exports: [OrderListResponder],
})
export class OrdersModule {}
