import { setTimeout as delay } from 'node:timers/promises';
import { Injectable, Logger, type OnApplicationShutdown } from '@nestjs/common';
import { ApiKeysRepository, DIGEST_PREFIX_LENGTH } from './api-keys.repository.js';

const RETRY_MS = 1_000;

/**
 * The digest prefixes of all keys, in memory (about 60 bytes each), so that a flood of invented keys is rejected without
 * queries while every existing key is still looked up. It may contain keys that are revoked meanwhile, but misses none
 * while it is complete: new keys are announced by notifications.
 */
@Injectable()
export class ApiKeyIndex implements OnApplicationShutdown {
  readonly #logger = new Logger('ApiKeyIndex');
  #prefixes = new Set<string>();
  #complete = false;
  /** Numbers the loads: a later one supersedes those before it. */
  #load = 0;

  constructor(private readonly repository: ApiKeysRepository) {}

  /** False while notifications may be missed, and until the keys are loaded afterwards. */
  get complete(): boolean {
    return this.#complete;
  }

  has(keyHash: string): boolean {
    return this.#prefixes.has(keyHash.slice(0, DIGEST_PREFIX_LENGTH));
  }

  add(keyHash: string): void {
    this.#prefixes.add(keyHash.slice(0, DIGEST_PREFIX_LENGTH));
  }

  /** Call when notifications may be missed from now on. */
  invalidate(): void {
    this.#load++;
    this.#complete = false;
  }

  onApplicationShutdown(): void {
    this.invalidate();
  }

  /** Loads all keys; call when notifications arrive again, because those that arrive meanwhile are added. */
  async load(): Promise<void> {
    this.invalidate();
    const load = this.#load;
    const prefixes = (this.#prefixes = new Set<string>());
    while (load === this.#load) {
      try {
        const text = await this.repository.digestPrefixes();
        for (let start = 0; start < text.length; start += DIGEST_PREFIX_LENGTH) {
          prefixes.add(text.slice(start, start + DIGEST_PREFIX_LENGTH));
        }
        this.#complete = load === this.#load;
        return;
      } catch (error) {
        this.#logger.warn(`could not load the digests of the API keys, retrying: ${String(error)}`);
        await delay(RETRY_MS, undefined, { ref: false });
      }
    }
  }
}
