import { Inject, Injectable, Logger, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { inBackground } from '../common/in-background.js';
import { shareNextRun } from '../common/share-next-run.js';
import { CONFIG, type Config } from '../config/config.js';
import { databaseMessageOf } from '../database/postgres-errors.js';
import { Metrics } from '../metrics/metrics.js';
import { NO_USAGE, type UsageCounts, type UsageRow } from './usage-counts.js';
import { UsageRepository } from './usage.repository.js';

/** A process that is killed loses the counts of this time. Milliseconds. */
const FLUSH_MS = 10_000;
/** Written in 30 ms; the statement may take three seconds, on any disk. */
const ROWS_PER_STATEMENT = 1_000;

/**
 * Counts what each key does, in memory on the request path. Outside of it, writes the counts and the last use of each key, and removes
 * old days.
 */
@Injectable()
export class UsageRecorder implements OnApplicationBootstrap, OnApplicationShutdown {
  readonly #logger = new Logger('Usage');
  /** By key; at most as many as there are keys. */
  #rows = new Map<string, UsageRow>();
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly repository: UsageRepository,
    @Inject(CONFIG) private readonly config: Config,
    private readonly metrics: Metrics,
  ) {}

  onApplicationBootstrap(): void {
    this.#timer = setInterval(() => {
      inBackground(this.flush());
    }, FLUSH_MS).unref();
  }

  /** Runs after the HTTP server has closed, so that no count is missing, and before the pools end. */
  async onApplicationShutdown(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }

  /** Adds to what a key did. */
  add(keyId: string, counts: Partial<UsageCounts>): void {
    let row = this.#rows.get(keyId);
    if (row === undefined) {
      row = { keyId, ...NO_USAGE };
      this.#rows.set(keyId, row);
    }
    for (const [count, number] of Object.entries(counts)) {
      row[count as keyof UsageCounts] += number;
    }
  }

  /**
   * Writes the counts, and removes days that are too old. What could not be written is written by the next call; when the connection was
   * lost meanwhile, perhaps a second time. Never rejects.
   */
  readonly flush = shareNextRun(() => this.#flush());

  async #flush(): Promise<void> {
    const rows = [...this.#rows.values()];
    if (rows.length === 0) {
      return;
    }
    this.#rows = new Map();
    try {
      while (rows.length > 0) {
        await this.repository.addUsage(rows.slice(0, ROWS_PER_STATEMENT));
        rows.splice(0, ROWS_PER_STATEMENT);
      }
      await this.repository.removeOldUsage(this.config.usageRetentionDays);
    } catch (error) {
      this.metrics.usageFlushFailures.inc();
      this.#logger.warn(`cannot write usage: ${databaseMessageOf(error)}`);
      for (const { keyId, ...counts } of rows) {
        this.add(keyId, counts);
      }
    }
  }
}
