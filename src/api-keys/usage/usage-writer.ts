import { Inject, Injectable, Logger, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { asError } from '../../common/as-error.js';
import { CLOCK, type Clock } from '../../common/clock.js';
import { CONFIG, type Config } from '../../config/config.js';
import { INSUFFICIENT_PRIVILEGE, sqlStateOf, UNDEFINED_TABLE } from '../../database/postgres-errors.js';
import { Metrics } from '../../metrics/metrics.js';
import { ApiKeysRepository } from '../api-keys.repository.js';
import { ANONYMOUS_ID } from './usage-counts.js';
import { UsageRecorder } from './usage-recorder.js';
import { UsageRepository } from './usage.repository.js';

/** A process that is killed loses the counts of this time. Milliseconds. */
const FLUSH_MS = 10_000;
/** Minimum time between two records of the last use of a key. */
const LAST_USE_MS = 60_000;
const PRUNE_MS = 3_600_000;
/** Rows that one statement removes. */
const PRUNE_STEP = 10_000;
/** Time between two log lines while rows are removed. */
const PRUNE_LOG_MS = 10_000;

/** Writes the counts of {@link UsageRecorder} and the last use of each key, and removes old days, outside the request path. */
@Injectable()
export class UsageWriter implements OnApplicationBootstrap, OnApplicationShutdown {
  readonly #logger = new Logger('Usage');
  /** When the last use of each key was recorded, in Unix milliseconds. One entry for each key that was used. */
  readonly #lastUseRecordedAtMs = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #flushed: Promise<void> = Promise.resolve();
  #pruned: Promise<void> | undefined;
  #prunedAtMs = -Infinity;
  #isFailing = false;
  #stopped = false;

  constructor(
    private readonly recorder: UsageRecorder,
    private readonly repository: UsageRepository,
    private readonly keys: ApiKeysRepository,
    @Inject(CLOCK) private readonly clock: Clock,
    @Inject(CONFIG) private readonly config: Config,
    private readonly metrics: Metrics,
  ) {}

  onApplicationBootstrap(): void {
    this.#timer = setInterval(() => {
      void this.flush();
      void this.prune();
    }, FLUSH_MS).unref();
  }

  /** Runs after the HTTP server has closed, so that no count is missing, and before the pools end. */
  async onApplicationShutdown(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    await this.#pruned;
    await this.flush();
    if (!this.#isFailing) {
      // The first one may have written only the batch of an earlier failure.
      await this.flush();
    }
    const lost = this.recorder.unwrittenRequests();
    if (lost > 0) {
      this.#logger.warn(`lost the usage of ${lost} requests: it could not be written before the stop`);
    }
  }

  /** Writes the counts. After a failure they are kept and written by a later call. Never rejects. */
  flush(): Promise<void> {
    this.#flushed = this.#flushed.then(() => this.#flush());
    return this.#flushed;
  }

  /** Removes the days that are too old, once an hour. Never rejects. */
  prune(): Promise<void> {
    this.#pruned ??= this.#prune().finally(() => (this.#pruned = undefined));
    return this.#pruned;
  }

  async #flush(): Promise<void> {
    const batch = this.recorder.nextBatch();
    if (batch === undefined) {
      return;
    }
    try {
      const rows = await this.repository.add(batch, this.clock.now() - batch.countedAtMs);
      this.recorder.written();
      this.metrics.usageRowsWritten.inc(rows);
      if (this.#isFailing) {
        this.#isFailing = false;
        this.#logger.log('writing usage again');
      }
    } catch (error) {
      this.metrics.usageFlushFailures.inc();
      if (!this.#isFailing) {
        this.#isFailing = true;
        this.#logger.warn(`cannot write usage, keeping it in memory: ${reasonOf(error)}`);
      }
    }
    await this.#recordLastUse(batch.counts.keys());
  }

  async #recordLastUse(used: Iterable<string>): Promise<void> {
    const nowMs = this.clock.now();
    const due = [...used].filter(
      (id) => id !== ANONYMOUS_ID && nowMs - (this.#lastUseRecordedAtMs.get(id) ?? -Infinity) >= LAST_USE_MS,
    );
    if (due.length === 0) {
      return;
    }
    for (const id of due) {
      this.#lastUseRecordedAtMs.set(id, nowMs);
    }
    try {
      await this.keys.touch(due);
    } catch (error) {
      this.#logger.warn(`could not record the last use of ${due.length} keys: ${asError(error).message}`);
    }
  }

  async #prune(): Promise<void> {
    const startedAtMs = this.clock.now();
    if (startedAtMs - this.#prunedAtMs < PRUNE_MS) {
      return;
    }
    this.#prunedAtMs = startedAtMs;
    try {
      await this.repository.removeOldWriters();
      await this.#removeOldDays();
    } catch (error) {
      this.#logger.warn(`could not remove old usage: ${reasonOf(error)}`);
    }
  }

  async #removeOldDays(): Promise<void> {
    const { usageRetentionDays } = this.config;
    const startedAtMs = performance.now();
    let loggedAtMs = startedAtMs;
    let [removed, step] = [0, PRUNE_STEP];
    while (step === PRUNE_STEP && !this.#stopped) {
      step = await this.repository.removeOld(usageRetentionDays, PRUNE_STEP);
      removed += step;
      const nowMs = performance.now();
      if (nowMs - loggedAtMs >= PRUNE_LOG_MS) {
        loggedAtMs = nowMs;
        const left = await this.repository.countOld(usageRetentionDays);
        const perSecond = removed / ((nowMs - startedAtMs) / 1_000);
        this.#logger.log(
          `removing old usage: ${removed} rows, ${Math.round(perSecond)} rows/s, about ${Math.ceil(left / perSecond)} s left`,
        );
      }
    }
    if (removed > 0) {
      const rest = step === PRUNE_STEP ? '; the rest is removed after the next start' : '';
      this.#logger.log(`removed ${removed} rows of usage older than ${usageRetentionDays} days${rest}`);
    }
  }
}

function reasonOf(error: unknown): string {
  const reason = asError(error).message;
  const sqlState = sqlStateOf(error);
  return sqlState === UNDEFINED_TABLE || sqlState === INSUFFICIENT_PRIVILEGE
    ? `${reason}; apply the migration 20261122000002_api_key_usage`
    : reason;
}
