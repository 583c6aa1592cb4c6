import { Inject, Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';
import { CLOCK, type Clock } from '../common/clock.js';
import { CONFIG, type Config } from '../config/config.js';
import { Metrics } from '../metrics/metrics.js';
import { ApiKeysRepository } from './api-keys.repository.js';
import { hashKey, isWellFormedKey } from './key-format.js';
import type { VerifiedKey } from './verified-key.js';

/** How many keys are remembered, known and unknown together; least recently used forgotten first. */
const CACHED_KEYS_MAX = 10_000;

/** A remembered answer. An unknown key is remembered too, so that a guess repeated costs no second query. */
interface CachedAnswer {
  readonly key: VerifiedKey | undefined;
  readonly goodUntilMs: number;
}

/**
 * Verifies API keys. Answers from memory for `API_KEY_CACHE_SECONDS`; look-ups of one key that arrive together share one
 * query; {@link forget} and {@link invalidateAll} make the next request ask the database again.
 */
@Injectable()
export class ApiKeysService {
  readonly #answers = new LRUCache<string, CachedAnswer>({ max: CACHED_KEYS_MAX });
  readonly #lookups = new Map<string, Promise<VerifiedKey | undefined>>();
  readonly #cacheMs: number;

  constructor(
    private readonly repository: ApiKeysRepository,
    @Inject(CLOCK) private readonly clock: Clock,
    @Inject(CONFIG) config: Config,
    private readonly metrics: Metrics,
  ) {
    this.#cacheMs = config.apiKeyCacheSeconds * 1_000;
  }

  /**
   * The key behind a token; undefined when it is malformed, unknown, revoked or expired.
   * Answers without a promise where no query is needed.
   * @throws {DomainError} `service_unavailable` (by rejection) when the database cannot be asked
   */
  verify(token: string): VerifiedKey | undefined | Promise<VerifiedKey | undefined> {
    if (!isWellFormedKey(token)) {
      return undefined;
    }
    const keyHash = hashKey(token);
    const answer = this.#answers.get(keyHash);
    if (answer !== undefined && this.clock.now() < answer.goodUntilMs) {
      this.metrics.keyLookups.inc({ source: 'memory' });
      return this.#unlessExpired(answer.key);
    }
    this.metrics.keyLookups.inc({ source: 'database' });
    return (this.#lookups.get(keyHash) ?? this.#lookUp(keyHash)).then((key) => this.#unlessExpired(key));
  }

  /** Forgets what is known of one key, named by its SHA-256; a look-up under way no longer counts as fresh. */
  forget(keyHash: string): void {
    this.#answers.delete(keyHash);
    this.#lookups.delete(keyHash);
  }

  invalidateAll(): void {
    this.#answers.clear();
    this.#lookups.clear();
  }

  #lookUp(keyHash: string): Promise<VerifiedKey | undefined> {
    const lookup = this.repository.findByHash(keyHash).then(
      (key) => {
        // Forgotten while it was under way: the row may have changed after it was read, so it is not remembered.
        if (this.#lookups.get(keyHash) === lookup) {
          this.#lookups.delete(keyHash);
          this.#answers.set(keyHash, { key, goodUntilMs: this.clock.now() + this.#cacheMs });
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

  #unlessExpired(key: VerifiedKey | undefined): VerifiedKey | undefined {
    return key?.expiresAtMs !== undefined && key.expiresAtMs <= this.clock.now() ? undefined : key;
  }
}
