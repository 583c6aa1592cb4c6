import { Module } from '@nestjs/common';
import { ApiKeyIndex } from './api-key-index.js';
import { ApiKeyInvalidation } from './api-key-invalidation.js';
import { ApiKeysRepository } from './api-keys.repository.js';
import { ApiKeysService } from './api-keys.service.js';
import { KeyUsageRecorder } from './key-usage.recorder.js';

@Module({
  providers: [ApiKeysRepository, ApiKeyIndex, ApiKeysService, ApiKeyInvalidation, KeyUsageRecorder],
  exports: [ApiKeysRepository, ApiKeysService, KeyUsageRecorder],
})
export class ApiKeysModule {}
