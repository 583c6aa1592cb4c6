import { Module } from '@nestjs/common';
import { QuotaStoreFactory } from './quota-store.factory.js';
import { QUOTA_STORE } from './quota-store.js';

@Module({
  providers: [
    QuotaStoreFactory,
    { provide: QUOTA_STORE, inject: [QuotaStoreFactory], useFactory: (stores: QuotaStoreFactory) => stores.create() },
  ],
  exports: [QUOTA_STORE],
})
export class RateLimitModule {}
