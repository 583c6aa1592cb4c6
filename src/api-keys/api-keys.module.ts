import { Module } from '@nestjs/common';
import { DatabaseModule } from '../database/database.module.js';
import { RateLimitModule } from '../rate-limit/rate-limit.module.js';
import { ApiKeyNotifications } from './api-key-notifications.js';
import { ApiKeysRepository } from './api-keys.repository.js';
import { ApiKeysService } from './api-keys.service.js';

@Module({
  imports: [DatabaseModule, RateLimitModule],
  providers: [ApiKeysRepository, ApiKeysService, ApiKeyNotifications],
  exports: [ApiKeysService],
})
export class ApiKeysModule {}
