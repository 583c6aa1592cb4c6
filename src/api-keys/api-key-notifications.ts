import { Injectable } from '@nestjs/common';
import { DatabaseListener } from '../database/database-listener.js';
import { API_KEY_CHANGED_CHANNEL } from '../database/notification-channels.js';
import { ApiKeysService } from './api-keys.service.js';

/** Makes a change to a key take effect at once, and not when what is known of the key expires. */
@Injectable()
export class ApiKeyNotifications {
  constructor(listener: DatabaseListener, apiKeys: ApiKeysService) {
    listener.on(API_KEY_CHANGED_CHANNEL, (keyHash) => {
      apiKeys.invalidate(keyHash);
    });
    listener.onConnected = () => {
      apiKeys.invalidateAll();
    };
  }
}
