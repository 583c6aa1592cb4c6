import { Inject, Injectable } from '@nestjs/common';
import { API_KEY_UNBANNED_CHANNEL } from '../api-keys/api-key-channels.js';
import { DatabaseListener } from '../prisma/database-listener.js';
import { QUOTA_STORE, type QuotaStore } from './quota-store.js';
import { subjectOfKey } from './subject.js';

/** Lets an operator end a ban in every process that remembers it. */
@Injectable()
export class BanLifting {
  constructor(listener: DatabaseListener, @Inject(QUOTA_STORE) store: QuotaStore) {
    listener.subscribe({
      channel: API_KEY_UNBANNED_CHANNEL,
      onMessage: (keyId) => {
        void store.liftBan(subjectOfKey(keyId));
      },
    });
  }
}
