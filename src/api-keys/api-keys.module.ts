import { Module } from '@nestjs/common';
import { ApiKeyIndex } from './api-key-index.js';
import { ApiKeyInvalidation } from './api-key-invalidation.js';
import { ApiKeysRepository } from './api-keys.repository.js';
import { ApiKeysService } from './api-keys.service.js';
import { UsageRecorder } from './usage/usage-recorder.js';
import { UsageWriter } from './usage/usage-writer.js';
import { UsageRepository } from './usage/usage.repository.js';

@Module({
  providers: [
    ApiKeysRepository,
    ApiKeyIndex,
    ApiKeysService,
    ApiKeyInvalidation,
    // What each key does: counted in memory, written in batches.
    UsageRecorder,
    UsageWriter,
    UsageRepository,
  ],
  exports: [ApiKeysRepository, ApiKeysService, UsageRecorder],
})
export class ApiKeysModule {}
