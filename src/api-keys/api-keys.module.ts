import { Module } from '@nestjs/common';
import { ApiKeyNotifications } from './api-key-notifications.js';
import { ApiKeysRepository } from './api-keys.repository.js';
import { ApiKeysService } from './api-keys.service.js';
import { IssuedDigests } from './issued-digests.js';
import { UsageRecorder } from './usage/usage-recorder.js';
import { UsageWriter } from './usage/usage-writer.js';

@Module({
  providers: [
    ApiKeysRepository,
    IssuedDigests,
    ApiKeysService,
    ApiKeyNotifications,
    // What each key does: counted in memory, written in batches.
    UsageRecorder,
    UsageWriter,
  ],
  exports: [ApiKeysRepository, ApiKeysService, UsageRecorder],
})
export class ApiKeysModule {}
