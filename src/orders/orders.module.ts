import { Module } from '@nestjs/common';
import { DatabaseModule } from '../database/database.module.js';
import { UsageModule } from '../usage/usage.module.js';
import { CancelBatcher } from './cancel-batcher.js';
import { ImageCache } from './list/image-cache.js';
import { ListCompaction } from './list/list-compaction.js';
import { ListSnapshots } from './list/list-snapshot.js';
import { OrderListResponder } from './list/order-list.responder.js';
import { VersionReader } from './list/version-reader.js';
import { OrdersController } from './orders.controller.js';
import { OrdersRepository } from './orders.repository.js';
import { OrdersService } from './orders.service.js';

@Module({
  imports: [DatabaseModule, UsageModule],
  controllers: [OrdersController],
  providers: [
    // Cancelling: the rule, its execution in batches, the statements.
    OrdersService,
    CancelBatcher,
    OrdersRepository,
    // Listing.
    OrderListResponder,
    ImageCache,
    VersionReader,
    ListCompaction,
    ListSnapshots,
  ],
})
export class OrdersModule {}
