import { Injectable } from '@nestjs/common';
import { inBackground } from '../common/in-background.js';
import { DatabaseListener } from '../database/database-listener.js';
import { API_KEY_CHANGED_CHANNEL } from '../database/notification-channels.js';
import { ApiKeyIndex } from './api-key-index.js';
import { ApiKeysService } from './api-keys.service.js';

/** Makes a change to a key take effect at once instead of when its cache entry expires. */
@Injectable()
export class ApiKeyInvalidation {
  constructor(listener: DatabaseListener, apiKeys: ApiKeysService, index: ApiKeyIndex) {
    listener.subscribe({
      channel: API_KEY_CHANGED_CHANNEL,
      onMessage: (keyHash) => {
        index.add(keyHash);
        apiKeys.invalidate(keyHash);
      },
      onLost: () => {
        index.invalidate();
      },
      onGap: () => {
        apiKeys.invalidateAll();
        inBackground(index.load());
      },
    });
  }
}
