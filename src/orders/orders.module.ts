import { Module } from '@nestjs/common';
import { CancelBatcher } from './cancel-batcher.js';
import { ListCompaction } from './list/list-compaction.js';
import { ReplicaFallback } from './list/replica-fallback.js';
import { ListReplica } from './list/list-replica.js';
import { ListTransactions } from './list/list-transaction.js';
import { ListVersionReader } from './list/list-version.reader.js';
import { OrderListReader } from './list/order-list.reader.js';
import { OrderListResponder } from './list/order-list.responder.js';
import { OrderCancellationService } from './order-cancellation.service.js';
import { OrdersController } from './orders.controller.js';
import { OrdersRepository } from './orders.repository.js';
import { OrdersService } from './orders.service.js';

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
    ListVersionReader,
    ListCompaction,
    ListTransactions,
    ReplicaFallback,
    ListReplica,
  ],
  exports: [OrdersRepository],
})
export class OrdersModule {}
