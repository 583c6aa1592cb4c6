import { Inject, Injectable } from '@nestjs/common';
import { Batches } from '../common/batches.js';
import { CLOCK, type Clock } from '../common/clock.js';
import { FairSlots } from '../common/fair-slots.js';
import { lruCache } from '../common/lru-cache.js';
import { CONFIG, type Config } from '../config/config.js';
import { DatabaseListener } from '../database/database-listener.js';
import { API_KEY_CHANGED_CHANNEL } from '../database/notification-channels.js';
import { DomainError } from '../errors/domain-error.js';
import { Metrics } from '../metrics/metrics.js';
import { ApiKeysRepository, type VerifiedKey } from './api-keys.repository.js';
import { hashKey, isWellFormedKey } from './key-format.js';
import { isExpired } from './key-state.js';

const KNOWN_KEYS_MAX = 10_000;
/** Statements that look up tokens that may be invented; tokens that arrive meanwhile share the next one. */
const UNKNOWN_LOOKUPS_MAX = 2;
/** How long such a token waits for its statement to start. Milliseconds. */
const UNKNOWN_TIMEOUT_MS = 1_000;
/** Tokens in one statement. */
const UNKNOWN_BATCH_MAX = 500;

interface KnownKey {
  readonly key: VerifiedKey;
  /** Unix milliseconds; -Infinity when the row may have changed since: the entry is stale. */
  readAtMs: number;
}

/**
 * Verifies API keys. Keys that exist are known from their first look-up on, and not looked up again for `API_KEY_CACHE_SECONDS` or until
 * they change, as long as this process is notified of changes. A token that this process does not know may be invented: those that
 * arrive together are looked up together, however many a client sends, and only keys that exist take a place in the cache.
 */
@Injectable()
export class ApiKeysService {
  readonly #known = lruCache<string, KnownKey>(KNOWN_KEYS_MAX);
  /** The latest look-up of each key; concurrent requests share it. */
  readonly #lookups = new Map<string, Promise<VerifiedKey | undefined>>();
  readonly #unknown: Batches<string, VerifiedKey>;
  readonly #cacheMs: number;

  constructor(
    private readonly repository: ApiKeysRepository,
    private readonly listener: DatabaseListener,
    @Inject(CLOCK) private readonly clock: Clock,
    @Inject(CONFIG) config: Config,
    private readonly metrics: Metrics,
  ) {
    const slots = new FairSlots(UNKNOWN_LOOKUPS_MAX, {
      ms: UNKNOWN_TIMEOUT_MS,
      error: () =>
        new DomainError('service_unavailable', 'The API key cannot be verified at the moment; retry shortly.'),
    });
    this.#unknown = new Batches(slots, UNKNOWN_BATCH_MAX, (keyHashes) => repository.findByHashes(keyHashes));
    this.#cacheMs = config.apiKeyCacheSeconds * 1_000;
    listener.on(API_KEY_CHANGED_CHANNEL, (keyHash) => {
      this.invalidate(keyHash);
    });
    // Messages may have been missed.
    listener.onConnected = () => {
      this.invalidateAll();
    };
  }

  /**
   * The key behind a token; undefined when it is malformed, unknown, revoked or expired.
   * @throws {DomainError} `service_unavailable` (by rejection) when the database is unavailable or does not respond in time
   */
  async verify(token: string): Promise<VerifiedKey | undefined> {
    if (!isWellFormedKey(token)) {
      return undefined;
    }
    const key = await this.#find(hashKey(token));
    return key === undefined || isExpired(key, this.clock.now()) ? undefined : key;
  }

  /** The key that a token belonged to when it was last looked up, however long ago. */
  lastKnown(token: string): VerifiedKey | undefined {
    return this.#known.peek(hashKey(token))?.key;
  }

  /** Makes what is known of a key stale, by the key's SHA-256. A look-up in flight may have read the row before the change. */
  invalidate(keyHash: string): void {
    const known = this.#known.peek(keyHash);
    if (known !== undefined) {
      known.readAtMs = -Infinity;
    }
    this.#lookups.delete(keyHash);
  }

  invalidateAll(): void {
    for (const known of this.#known.values()) {
      known.readAtMs = -Infinity;
    }
    this.#lookups.clear();
  }

  #find(keyHash: string): VerifiedKey | Promise<VerifiedKey | undefined> {
    const known = this.#known.get(keyHash);
    if (known !== undefined && this.#isFresh(known)) {
      this.metrics.keyLookups.labels('memory').inc();
      return known.key;
    }
    this.metrics.keyLookups.labels('database').inc();
    return this.#lookups.get(keyHash) ?? this.#lookUp(keyHash, known === undefined);
  }

  #lookUp(keyHash: string, mayBeInvented: boolean): Promise<VerifiedKey | undefined> {
    const found = mayBeInvented ? this.#unknown.add(keyHash).results : this.repository.findByHashes([keyHash]);
    // Not when it was invalidated meanwhile: its row may have been read before a change.
    const isLatest = (): boolean => this.#lookups.get(keyHash) === lookup;
    const lookup = found
      .then((keys) => {
        const key = keys.get(keyHash);
        if (isLatest()) {
          this.#remember(keyHash, key);
        }
        return key;
      })
      .finally(() => {
        if (isLatest()) {
          this.#lookups.delete(keyHash);
        }
      });
    this.#lookups.set(keyHash, lookup);
    return lookup;
  }

  #remember(keyHash: string, key: VerifiedKey | undefined): void {
    if (key === undefined) {
      this.#known.delete(keyHash);
    } else {
      this.#known.set(keyHash, { key, readAtMs: this.clock.now() });
    }
  }

  /** While no changes are notified, none is. An entry of the future was read before the clock was set back. */
  #isFresh({ readAtMs }: KnownKey): boolean {
    return this.listener.isListening && Math.abs(this.clock.now() - readAtMs) < this.#cacheMs;
  }
}
