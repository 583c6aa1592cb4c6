import { LRUCache } from 'lru-cache';
import { inBackground } from '../common/in-background.js';
import type { RedisCircuitBreakers } from './redis-circuit-breakers.js';

const UNSAVED_BANS_MAX = 100_000;

/** Saves the bans that this process imposes in Redis, for the other processes. */
export class RedisBans {
  /** Ends of bans that Redis has not confirmed, in its clock's Unix milliseconds. */
  readonly #unsaved = new LRUCache<string, number>({ max: UNSAVED_BANS_MAX });

  /** @param onSaved called with the end of a ban and the end that is in effect: that of an earlier ban stands */
  constructor(
    private readonly redis: RedisCircuitBreakers,
    private readonly onSaved: (subject: string, bannedUntilMs: number, inEffectUntilMs: number) => void,
  ) {}

  unsavedUntilMs(subject: string): number | undefined {
    return this.#unsaved.get(subject);
  }

  /** Never rejects. A ban that cannot be saved is kept for a later attempt. */
  async save(subject: string, bannedUntilMs: number): Promise<void> {
    this.#unsaved.set(subject, bannedUntilMs);
    try {
      const inEffectUntilMs = await this.redis.execute(subject, (redis, key) => redis.ban(key, bannedUntilMs));
      this.#unsaved.delete(subject);
      this.onSaved(subject, bannedUntilMs, inEffectUntilMs);
    } catch {
      // Saved when Redis is available again, or with the next request.
    }
  }

  /** Saves the bans that began while Redis was unavailable. */
  saveAll(nowMs: number): void {
    for (const [subject, bannedUntilMs] of [...this.#unsaved.entries()]) {
      if (bannedUntilMs > nowMs) {
        inBackground(this.save(subject, bannedUntilMs));
      } else {
        this.delete(subject);
      }
    }
  }

  delete(subject: string): void {
    this.#unsaved.delete(subject);
  }
}
