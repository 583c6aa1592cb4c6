import { type BeforeApplicationShutdown, Inject, Injectable, Logger } from '@nestjs/common';
import { CLOCK, type Clock } from '../common/clock.js';
import { ApiKeysRepository } from './api-keys.repository.js';

/** Minimum time between two writes for one key. */
const INTERVAL_MS = 60_000;
/** Uses are collected for this time, so that many keys need one statement. */
const BATCH_MS = 1_000;

/** Records when keys were last used, outside the request path. If a write fails, only the record is lost. */
@Injectable()
export class KeyUsageRecorder implements BeforeApplicationShutdown {
  readonly #logger = new Logger('KeyUsage');
  /** When each key was last written, in Unix milliseconds. One entry for each key that was used. */
  readonly #writtenAtMs = new Map<string, number>();
  readonly #due = new Set<string>();
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly repository: ApiKeysRepository,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  used(keyId: string): void {
    const nowMs = this.clock.now();
    const writtenAtMs = this.#writtenAtMs.get(keyId);
    if (writtenAtMs !== undefined && nowMs - writtenAtMs < INTERVAL_MS) {
      return;
    }
    this.#writtenAtMs.set(keyId, nowMs);
    this.#due.add(keyId);
    this.#timer ??= setTimeout(() => void this.flush(), BATCH_MS).unref();
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.flush();
  }

  /** Writes the pending uses. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const ids = [...this.#due];
    this.#due.clear();
    if (ids.length === 0) {
      return;
    }
    try {
      await this.repository.touch(ids);
    } catch (error) {
      this.#logger.warn(`could not record the last use of ${ids.length} keys: ${String(error)}`);
    }
  }
}
