import { Inject, Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';
import { CLOCK, type Clock } from '../common/clock.js';
import { Semaphore } from '../common/semaphore.js';
import { CONFIG, type Config } from '../config/config.js';
import { DomainError } from '../errors/domain-error.js';
import { Metrics } from '../metrics/metrics.js';
import { ApiKeyIndex } from './api-key-index.js';
import { ApiKeysRepository } from './api-keys.repository.js';
import { hashKey, isWellFormedKey } from './key-format.js';
import type { VerifiedKey } from './verified-key.js';

/** Cached keys that exist, and cached digests that do not: invented keys evict no valid one. */
const CACHED_KEYS_MAX = 10_000;
/** Concurrent queries for digests that probably belong to no key, in all. */
const UNKNOWN_LOOKUPS_MAX = 2;
/** How long such a query waits for its turn; by then the notification of a new key has arrived. Milliseconds. */
const SLOT_TIMEOUT_MS = 1_000;

interface CachedKey {
  readonly key: VerifiedKey;
  /** Unix milliseconds. A stale entry still shows that the key existed. */
  freshUntilMs: number;
}

/**
 * Verifies API keys. Results are cached for `API_KEY_CACHE_SECONDS`; concurrent look-ups of one key share a query. Queries
 * for keys that probably do not exist are bounded, so that a flood of them costs the database next to nothing; a key
 * that exists is always looked up.
 */
@Injectable()
export class ApiKeysService {
  readonly #keys = new LRUCache<string, CachedKey>({ max: CACHED_KEYS_MAX });
  /** Digests without a key, with the end of their entry in Unix milliseconds. */
  readonly #unknown = new LRUCache<string, number>({ max: CACHED_KEYS_MAX });
  readonly #lookups = new Map<string, Promise<VerifiedKey | undefined>>();
  /** Look-ups that wait for a slot or have one. */
  readonly #turns = new Map<string, Promise<VerifiedKey | undefined>>();
  readonly #unknownSlots = new Semaphore(UNKNOWN_LOOKUPS_MAX);
  readonly #cacheMs: number;

  constructor(
    private readonly repository: ApiKeysRepository,
    private readonly index: ApiKeyIndex,
    @Inject(CLOCK) private readonly clock: Clock,
    @Inject(CONFIG) config: Config,
    private readonly metrics: Metrics,
  ) {
    this.#cacheMs = config.apiKeyCacheSeconds * 1_000;
  }

  /**
   * The key behind a token; undefined when it is malformed, unknown, revoked or expired.
   * Returns without a promise when no query is needed.
   * @param isAddressLimited whether the caller's address is over its limits; keys missing from the index cost it no query
   * @throws {DomainError} `service_unavailable` (by rejection) when the database is unavailable
   */
  verify(
    token: string,
    isAddressLimited: () => boolean = () => false,
  ): VerifiedKey | undefined | Promise<VerifiedKey | undefined> {
    if (!isWellFormedKey(token)) {
      return undefined;
    }
    const keyHash = hashKey(token);
    const cached = this.#keys.get(keyHash);
    const nowMs = this.clock.now();
    if (nowMs < (cached?.freshUntilMs ?? this.#unknown.get(keyHash) ?? 0)) {
      this.metrics.keyLookups.labels('memory').inc();
      return this.#unlessExpired(cached?.key);
    }
    const isMissing = this.index.complete && !this.index.has(keyHash);
    if (isMissing && cached === undefined && isAddressLimited()) {
      this.metrics.keyLookups.labels('index').inc();
      return undefined;
    }
    const isLikely = cached !== undefined || (this.index.complete && !isMissing);
    const lookup = isLikely ? this.#sharedLookUp(keyHash) : this.#sharedTurn(keyHash, isAddressLimited);
    return lookup.then((key) => this.#unlessExpired(key));
  }

  /** The key that a token belonged to when it was last looked up, however long ago. */
  lastKnown(token: string): VerifiedKey | undefined {
    return this.#keys.peek(hashKey(token))?.key;
  }

  /** Invalidates the cache entry of one key, named by its SHA-256; a look-up in flight is not cached. */
  invalidate(keyHash: string): void {
    const cached = this.#keys.peek(keyHash);
    if (cached !== undefined) {
      cached.freshUntilMs = 0;
    }
    this.#unknown.delete(keyHash);
    this.#lookups.delete(keyHash);
    this.#turns.delete(keyHash);
  }

  invalidateAll(): void {
    for (const cached of this.#keys.values()) {
      cached.freshUntilMs = 0;
    }
    this.#unknown.clear();
    this.#lookups.clear();
    this.#turns.clear();
  }

  #sharedTurn(keyHash: string, isAddressLimited: () => boolean): Promise<VerifiedKey | undefined> {
    const waiting = this.#turns.get(keyHash);
    if (waiting !== undefined) {
      return waiting;
    }
    const turn = this.#lookUpInTurn(keyHash, isAddressLimited).finally(() => {
      if (this.#turns.get(keyHash) === turn) {
        this.#turns.delete(keyHash);
      }
    });
    this.#turns.set(keyHash, turn);
    return turn;
  }

  /** Looks up a digest that is in no cache and, as far as the index is complete, belongs to no key. */
  async #lookUpInTurn(keyHash: string, isAddressLimited: () => boolean): Promise<VerifiedKey | undefined> {
    const hasSlot = await this.#unknownSlots.acquireWithin(SLOT_TIMEOUT_MS);
    try {
      // Both may have changed while this look-up waited.
      const isMissing = this.index.complete && !this.index.has(keyHash);
      if (isMissing && (!hasSlot || isAddressLimited())) {
        this.metrics.keyLookups.labels('index').inc();
        return undefined;
      }
      if (!hasSlot && !this.index.complete) {
        throw new DomainError('service_unavailable', 'The API key cannot be verified at the moment; retry shortly.');
      }
      return await this.#sharedLookUp(keyHash);
    } finally {
      if (hasSlot) {
        this.#unknownSlots.release();
      }
    }
  }

  #sharedLookUp(keyHash: string): Promise<VerifiedKey | undefined> {
    this.metrics.keyLookups.labels('database').inc();
    return this.#lookups.get(keyHash) ?? this.#lookUp(keyHash);
  }

  #lookUp(keyHash: string): Promise<VerifiedKey | undefined> {
    const lookup = this.repository.findByHash(keyHash).then(
      (key) => {
        // Not cached when it was invalidated meanwhile: the row may have changed after it was read.
        if (this.#lookups.get(keyHash) === lookup) {
          this.#lookups.delete(keyHash);
          this.#cache(keyHash, key);
        }
        return key;
      },
      (error: unknown) => {
        if (this.#lookups.get(keyHash) === lookup) {
          this.#lookups.delete(keyHash);
        }
        throw error;
      },
    );
    this.#lookups.set(keyHash, lookup);
    return lookup;
  }

  #cache(keyHash: string, key: VerifiedKey | undefined): void {
    const freshUntilMs = this.clock.now() + this.#cacheMs;
    if (key === undefined) {
      this.#keys.delete(keyHash);
      this.#unknown.set(keyHash, freshUntilMs);
    } else {
      this.#unknown.delete(keyHash);
      this.#keys.set(keyHash, { key, freshUntilMs });
    }
  }

  #unlessExpired(key: VerifiedKey | undefined): VerifiedKey | undefined {
    return key?.expiresAtMs !== undefined && key.expiresAtMs <= this.clock.now() ? undefined : key;
  }
}
