import { Inject, Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';
import { Batches } from '../common/batches.js';
import { CLOCK, type Clock } from '../common/clock.js';
import { CONFIG, type Config } from '../config/config.js';
import { DatabaseListener } from '../database/database-listener.js';
import { API_KEY_CHANGED_CHANNEL } from '../database/notification-channels.js';
import { Metrics } from '../metrics/metrics.js';
import { ApiKeysRepository, type FoundKey, type VerifiedKey, verifiedKeyOf } from './api-keys.repository.js';
import { hashKey, isExpired, isWellFormedKey } from './key.js';

const KNOWN_KEYS_MAX = 10_000;
/** Look-ups that run at once, and keys in one of them: tokens may be invented, and must not take the connections of cancels. */
const LOOKUPS_MAX = 2;
const LOOKUP_SIZE_MAX = 500;

interface KnownKey {
  readonly key: VerifiedKey;
  /** Unix milliseconds. */
  readonly readAtMs: number;
}

/**
 * Verifies API keys. Keys that exist are known from their look-up on, for `API_KEY_CACHE_SECONDS` or until they change, of which this
 * process is notified. What does not exist is looked up each time: the key may be issued at any moment.
 */
@Injectable()
export class ApiKeysService {
  /** By the SHA-256 of the key. */
  readonly #known = new LRUCache<string, KnownKey>({ max: KNOWN_KEYS_MAX });
  readonly #lookups: Batches<string, FoundKey>;
  readonly #cacheMs: number;
  /** Notifications so far: a look-up during which one arrives may have read a row before its change. */
  #changes = 0;

  constructor(
    repository: ApiKeysRepository,
    private readonly listener: DatabaseListener,
    @Inject(CLOCK) private readonly clock: Clock,
    @Inject(CONFIG) { apiKeyCacheSeconds }: Config,
    private readonly metrics: Metrics,
  ) {
    this.#lookups = new Batches(LOOKUPS_MAX, LOOKUP_SIZE_MAX, (keyHashes) => repository.findByHashes(keyHashes));
    this.#cacheMs = apiKeyCacheSeconds * 1_000;
    listener.on(API_KEY_CHANGED_CHANNEL, (keyHash) => {
      this.#changes++;
      this.#known.delete(keyHash);
    });
    // Messages may have been missed.
    listener.onConnected = () => {
      this.#changes++;
      this.#known.clear();
    };
  }

  /**
   * The key behind a token; undefined when it is malformed, unknown, revoked or expired.
   * @throws {DomainError} `service_unavailable` (by rejection) when the database is unavailable or does not respond in time
   * @throws {Error} (by rejection) for a plan that this version does not know
   */
  async verify(token: string): Promise<VerifiedKey | undefined> {
    if (!isWellFormedKey(token)) {
      return undefined;
    }
    const keyHash = hashKey(token);
    const nowMs = this.clock.now();
    const known = this.#known.get(keyHash);
    const isFresh = known !== undefined && this.#isFresh(known, nowMs);
    this.metrics.keyLookups.labels(isFresh ? 'memory' : 'database').inc();
    const key = isFresh ? known.key : await this.#lookUp(keyHash, nowMs);
    return key === undefined || isExpired(key, this.clock.now()) ? undefined : key;
  }

  /** Nothing is while no changes are notified. An entry of the future was read before the clock was set back. */
  #isFresh({ readAtMs }: KnownKey, nowMs: number): boolean {
    return this.listener.isListening && Math.abs(nowMs - readAtMs) < this.#cacheMs;
  }

  async #lookUp(keyHash: string, readAtMs: number): Promise<VerifiedKey | undefined> {
    const changes = this.#changes;
    const found = (await this.#lookups.add(keyHash).results).get(keyHash);
    if (found === undefined) {
      this.#known.delete(keyHash);
      return undefined;
    }
    // Each key alone: one that cannot be read must not fail those in its statement.
    const key = verifiedKeyOf(found);
    if (changes === this.#changes) {
      this.#known.set(keyHash, { key, readAtMs });
    }
    return key;
  }
}
