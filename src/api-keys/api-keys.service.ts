import { Inject, Injectable } from '@nestjs/common';
import { CLOCK, type Clock } from '../common/clock.js';
import { FairSlots } from '../common/fair-slots.js';
import { lruCache } from '../common/lru-cache.js';
import { CONFIG, type Config } from '../config/config.js';
import { DomainError } from '../errors/domain-error.js';
import { Metrics } from '../metrics/metrics.js';
import { ApiKeysRepository, type VerifiedKey } from './api-keys.repository.js';
import { IssuedDigests } from './issued-digests.js';
import { hashKey, isWellFormedKey } from './key-format.js';
import { isExpired } from './key-state.js';

const CACHED_KEYS_MAX = 10_000;
/** Concurrent look-ups of keys that may not exist, in all. */
const UNKNOWN_LOOKUPS_MAX = 2;
/** How long such a look-up waits for its turn. Milliseconds. */
const SLOT_TIMEOUT_MS = 1_000;

interface CachedKey {
  /** Undefined when the key is revoked. */
  readonly key: VerifiedKey | undefined;
  /** Unix milliseconds; -Infinity when the row may have changed since. A stale entry still shows that the key existed. */
  readAtMs: number;
}

/**
 * Verifies API keys. A key that is not among the issued digests is invalid without a query. The others are looked up and cached for
 * `API_KEY_CACHE_SECONDS`; concurrent look-ups of one key share a query. While notifications of new keys may be missed, a few
 * unknown keys at a time are looked up, too.
 */
@Injectable()
export class ApiKeysService {
  readonly #cache = lruCache<string, CachedKey>(CACHED_KEYS_MAX);
  readonly #lookups = new Map<string, Promise<VerifiedKey | undefined>>();
  readonly #unknownSlots = new FairSlots(UNKNOWN_LOOKUPS_MAX, {
    ms: SLOT_TIMEOUT_MS,
    error: () => new DomainError('service_unavailable', 'The API key cannot be verified at the moment; retry shortly.'),
  });
  readonly #cacheMs: number;

  constructor(
    private readonly repository: ApiKeysRepository,
    private readonly issued: IssuedDigests,
    @Inject(CLOCK) private readonly clock: Clock,
    @Inject(CONFIG) config: Config,
    private readonly metrics: Metrics,
  ) {
    this.#cacheMs = config.apiKeyCacheSeconds * 1_000;
  }

  /**
   * The key behind a token; undefined when it is malformed, unknown, revoked or expired.
   * Returns without a promise when no query is needed.
   * @param callerOf names whom the look-up of an unknown key counts against
   * @throws {DomainError} `service_unavailable` (by rejection) when the database is unavailable
   */
  verify(token: string, callerOf: () => string): VerifiedKey | undefined | Promise<VerifiedKey | undefined> {
    if (!isWellFormedKey(token)) {
      return undefined;
    }
    const keyHash = hashKey(token);
    const cached = this.#cache.get(keyHash);
    if (cached !== undefined && this.#isFresh(cached)) {
      this.metrics.keyLookups.labels('memory').inc();
      return this.#unlessExpired(cached.key);
    }
    const isIssued = this.issued.has(keyHash);
    if (!isIssued && this.issued.isComplete) {
      this.metrics.keyLookups.labels('index').inc();
      return undefined;
    }
    this.metrics.keyLookups.labels('database').inc();
    const lookup = this.#lookups.get(keyHash) ?? this.#lookUp(keyHash, isIssued ? undefined : callerOf());
    return lookup.then((key) => this.#unlessExpired(key));
  }

  /** The key that a token belonged to when it was last looked up, however long ago. */
  lastKnown(token: string): VerifiedKey | undefined {
    return this.#cache.peek(hashKey(token))?.key;
  }

  /** Invalidates the cache entry of one key, named by its SHA-256; a look-up in flight is not cached. */
  invalidate(keyHash: string): void {
    const cached = this.#cache.peek(keyHash);
    if (cached !== undefined) {
      cached.readAtMs = -Infinity;
    }
    this.#lookups.delete(keyHash);
  }

  invalidateAll(): void {
    for (const cached of this.#cache.values()) {
      cached.readAtMs = -Infinity;
    }
    this.#lookups.clear();
  }

  /** @param caller given when the key may not exist */
  #lookUp(keyHash: string, caller: string | undefined): Promise<VerifiedKey | undefined> {
    const find = (): Promise<VerifiedKey | undefined> => this.repository.findByHash(keyHash);
    const found = caller === undefined ? find() : this.#unknownSlots.run(caller, find);
    const isLatest = (): boolean => this.#lookups.get(keyHash) === lookup;
    const lookup = found
      .then((key) => {
        if (key !== undefined && caller !== undefined) {
          this.issued.add(keyHash);
        }
        // Not cached when it was invalidated meanwhile: the row may have changed after it was read. Invented keys are not
        // cached either, so they evict no valid one.
        if (isLatest() && this.issued.has(keyHash)) {
          this.#cache.set(keyHash, { key, readAtMs: this.clock.now() });
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

  /** An entry of the future was read before the clock was set back. */
  #isFresh({ readAtMs }: CachedKey): boolean {
    return Math.abs(this.clock.now() - readAtMs) < this.#cacheMs;
  }

  #unlessExpired(key: VerifiedKey | undefined): VerifiedKey | undefined {
    return key === undefined || isExpired(key, this.clock.now()) ? undefined : key;
  }
}
