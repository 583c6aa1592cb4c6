import { Inject, Injectable, Logger, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { asError } from '../common/as-error.js';
import { CLOCK, type Clock } from '../common/clock.js';
import { coalesce } from '../common/coalesce.js';
import { inBackground } from '../common/in-background.js';
import { CONFIG, type Config } from '../config/config.js';
import { databaseMessageOf, isOutcomeUnknown } from '../database/postgres-errors.js';
import { Metrics } from '../metrics/metrics.js';
import { NO_USAGE, type UsageCounts, type UsageRow } from './usage-counts.js';
import { UsageRepository } from './usage.repository.js';

const COUNTS = Object.keys(NO_USAGE) as (keyof UsageCounts)[];

/** Rows that are held while they cannot be written, about 300 bytes each. Further keys are not counted. */
export const ROWS_MAX = 100_000;

const DAY_MS = 86_400_000;
/** A process that is killed loses the counts of this time. Milliseconds. */
const FLUSH_MS = 10_000;
/** Statements are not begun after this time: the next flush writes the rest, and a stop drops it. Milliseconds. */
const FLUSH_MAX_MS = 5_000;
/** Written in 30 ms; the statement may take three seconds, on any disk. One that takes longer would be repeated for ever. */
export const ROWS_PER_STATEMENT = 1_000;
/** Once an hour. */
const FLUSHES_PER_PRUNE = 360;
/** More than one day of 10,000 keys; they take less than a second, and the statement may take three. */
const PRUNED_ROWS_MAX = 100_000;

/**
 * Counts what each key does, in memory on the request path. Outside of it, writes the counts and the last use of each key, and removes
 * old days.
 */
@Injectable()
export class UsageRecorder implements OnApplicationBootstrap, OnApplicationShutdown {
  readonly #logger = new Logger('Usage');
  /** By day and key. */
  readonly #rows = new Map<string, UsageRow>();
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly repository: UsageRepository,
    @Inject(CLOCK) private readonly clock: Clock,
    @Inject(CONFIG) private readonly config: Config,
    private readonly metrics: Metrics,
  ) {
    metrics.watch('unflushedUsage', () => this.#rows.size);
  }

  onApplicationBootstrap(): void {
    let flushes = 0;
    this.#timer = setInterval(() => {
      inBackground(this.flush());
      // Not by the clock: one that was ahead for a moment would put the next time off.
      if (flushes++ % FLUSHES_PER_PRUNE === 0) {
        inBackground(this.prune());
      }
    }, FLUSH_MS).unref();
  }

  /** Runs after the HTTP server has closed, so that no count is missing, and before the pools end. */
  async onApplicationShutdown(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
    this.#drop(this.#take(ROWS_MAX), 'it could not be written before the stop');
  }

  /** Adds to what a key did, by default now. */
  add(keyId: string, counts: Partial<UsageCounts>, sinceMs = this.clock.now()): void {
    const id = `${Math.floor(sinceMs / DAY_MS)} ${keyId}`;
    let row = this.#rows.get(id);
    if (row === undefined) {
      if (this.#rows.size === ROWS_MAX) {
        this.metrics.usageLost.inc(requestsIn(counts));
        return;
      }
      row = { keyId, sinceMs, ...NO_USAGE };
      this.#rows.set(id, row);
    }
    row.sinceMs = Math.min(row.sinceMs, sinceMs);
    for (const count of COUNTS) {
      row[count] += counts[count] ?? 0;
    }
  }

  /**
   * Writes the counts. After a failure they are kept and written by a later call, unless they may have been written: nothing is
   * counted twice. Never rejects.
   */
  readonly flush = coalesce(() => this.#flush());

  /** Removes rows of days that are too old. Never rejects. */
  async prune(): Promise<void> {
    await this.#attempt('remove old usage', () =>
      this.repository.removeOldUsage(this.config.usageRetentionDays, PRUNED_ROWS_MAX),
    );
  }

  async #flush(): Promise<void> {
    if (this.#rows.size === 0) {
      return;
    }
    // While the database does not respond, nothing can have been written.
    if ((await this.#attempt('reach the database for usage', () => this.repository.ping())) !== undefined) {
      this.metrics.usageFlushFailures.inc();
      return;
    }
    const endMs = performance.now() + FLUSH_MAX_MS;
    let left = this.#rows.size;
    while (left > 0 && performance.now() < endMs) {
      const rows = this.#take(ROWS_PER_STATEMENT);
      left -= rows.length;
      if (!(await this.#write(rows))) {
        return;
      }
    }
  }

  /** @returns whether the database has them */
  async #write(rows: readonly UsageRow[]): Promise<boolean> {
    const failure = await this.#attempt('write usage', () => this.repository.addUsage(rows, this.clock.now()));
    if (failure === undefined) {
      await this.#attempt('record the last use of keys', () => this.repository.touch(rows.map(({ keyId }) => keyId)));
      return true;
    }
    this.metrics.usageFlushFailures.inc();
    if (isOutcomeUnknown(failure)) {
      this.#drop(rows, 'the connection was lost while it was written');
      return false;
    }
    for (const row of rows) {
      this.add(row.keyId, row, row.sinceMs);
    }
    return false;
  }

  /** Removes the oldest rows from memory. */
  #take(rowsMax: number): UsageRow[] {
    const taken: UsageRow[] = [];
    for (const [id, row] of this.#rows) {
      if (taken.length === rowsMax) {
        break;
      }
      taken.push(row);
      this.#rows.delete(id);
    }
    return taken;
  }

  #drop(rows: readonly UsageRow[], reason: string): void {
    if (rows.length === 0) {
      return;
    }
    const sum = (count: (row: UsageRow) => number): number => rows.reduce((total, row) => total + count(row), 0);
    const requests = sum(requestsIn);
    this.metrics.usageLost.inc(requests);
    const [lists, cancels] = [sum((row) => row.lists), sum((row) => row.cancels)];
    this.#logger.warn(`lost the usage of ${requests} requests, ${lists} lists and ${cancels} cancels: ${reason}`);
  }

  /** @returns the error */
  async #attempt(what: string, action: () => Promise<unknown>): Promise<Error | undefined> {
    try {
      await action();
      return undefined;
    } catch (error) {
      this.#logger.warn(`cannot ${what}: ${databaseMessageOf(error)}`);
      return asError(error);
    }
  }
}

/** All requests that the limiter has decided about. */
function requestsIn({ admitted = 0, rejected = 0, banned = 0 }: Partial<UsageCounts>): number {
  return admitted + rejected + banned;
}
