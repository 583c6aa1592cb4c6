import { Module } from '@nestjs/common';
import { DatabaseModule } from '../database/database.module.js';
import { RateLimitModule } from '../rate-limit/rate-limit.module.js';
import { ApiKeysRepository } from './api-keys.repository.js';
import { ApiKeysService } from './api-keys.service.js';

@Module({
  imports: [DatabaseModule, RateLimitModule],
  providers: [ApiKeysRepository, ApiKeysService],
  exports: [ApiKeysService],
})
export class ApiKeysModule {}
