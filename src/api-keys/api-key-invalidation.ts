import { Injectable } from '@nestjs/common';
import { API_KEY_CHANGED_CHANNEL, DatabaseListener } from '../database/database-listener.js';
import { ApiKeysService } from './api-keys.service.js';

/** Makes a change to a key take effect at once instead of when the cached answer runs out. */
@Injectable()
export class ApiKeyInvalidation {
  constructor(listener: DatabaseListener, apiKeys: ApiKeysService) {
    listener.subscribe({
      channel: API_KEY_CHANGED_CHANNEL,
      onMessage: (keyHash) => {
        apiKeys.forget(keyHash);
      },
      onGap: () => {
        apiKeys.invalidateAll();
      },
    });
  }
}
