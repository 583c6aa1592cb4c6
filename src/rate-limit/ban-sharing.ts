import { Injectable, Logger } from '@nestjs/common';
import { API_KEY_UNBANNED_CHANNEL, DatabaseListener } from '../database/database-listener.js';
import { Pools } from '../database/pools.js';
import type { QuotaStore } from './quota-store.js';
import { subjectOfKey } from './subject.js';

/** Carries `<end in Unix milliseconds> <subject>` of a ban that began in one of the processes that share a Redis. */
const BANNED_CHANNEL = 'limit_banned';

/**
 * Spreads the news of bans among the replicas. A replica that refuses a subject from memory does not ask Redis, so it
 * would learn of a ban, or of its end, late; the database's notifications reach every replica at once.
 */
@Injectable()
export class BanSharing {
  readonly #logger = new Logger('RateLimit');

  constructor(
    private readonly listener: DatabaseListener,
    private readonly pools: Pools,
  ) {}

  /** Lets an operator end a ban in every process that remembers it. */
  shareLifts(store: QuotaStore): void {
    this.listener.subscribe({
      channel: API_KEY_UNBANNED_CHANNEL,
      onMessage: (keyId) => {
        void store.liftBan(subjectOfKey(keyId));
      },
    });
  }

  /** Hears of the bans that begin in other processes. */
  onBanElsewhere(learn: (subject: string, bannedUntilMs: number) => void): void {
    this.listener.subscribe({
      channel: BANNED_CHANNEL,
      onMessage: (payload) => {
        const separator = payload.indexOf(' ');
        learn(payload.slice(separator + 1), Number(payload.slice(0, separator)));
      },
    });
  }

  /** Tells the other processes of a ban; without the database they learn of it from Redis, at their next question. */
  announce(subject: string, bannedUntilMs: number): void {
    this.pools.main
      .query('SELECT pg_notify($1, $2)', [BANNED_CHANNEL, `${bannedUntilMs} ${subject}`])
      .catch((error: unknown) => {
        this.#logger.warn(`a ban could not be announced: ${String(error)}`);
      });
  }
}
