import { type BeforeApplicationShutdown, Inject, Injectable, Logger } from '@nestjs/common';
import { CLOCK, type Clock } from '../common/clock.js';
import { ApiKeysRepository } from './api-keys.repository.js';

/** How often the last use of one key is written at most. */
const INTERVAL_MS = 60_000;
/** Uses are gathered this long, so that many keys cost one statement. */
const GATHER_MS = 1_000;

/** Records when keys were last used: off the request path, and a failure loses nothing but the record. */
@Injectable()
export class KeyUsageRecorder implements BeforeApplicationShutdown {
  readonly #logger = new Logger('KeyUsage');
  /** When each key was last written, in Unix milliseconds. As many entries as keys were used. */
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
    this.#timer ??= setTimeout(() => void this.flush(), GATHER_MS).unref();
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.flush();
  }

  /** Writes what is due. */
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
