import { Injectable, Logger, type OnApplicationBootstrap, type OnModuleDestroy } from '@nestjs/common';
import type { QueryResult } from 'pg';
import { asError } from '../../common/as-error.js';
import { onlyRow } from '../../database/only-row.js';
import { Pools } from '../../database/pools.js';
import { QUERY_CANCELED, sqlStateOf } from '../../database/postgres-errors.js';

/** How often the table is looked through, whether lists are asked for or not. Milliseconds, as are all durations here. */
const INTERVAL_MS = 30_000;
/** A compaction that fails or merges little is not repeated for every list. */
const PAUSE_MS = 1_000;
/** Rows are merged when there are more than twice as many as the last compaction left, and this many in addition. */
const UNMERGED_MAX = 256;
/** Pages that one transaction looks through, up to 185 rows each: as many as it can in about this time. */
const STEP_MS = 1_000;
const PAGES_START = 250;
const PAGES_MIN = 16;
const PAGES_MAX = 8_000;

/** Merges rows of the versions. It changes no version. */
@Injectable()
export class ListCompaction implements OnApplicationBootstrap, OnModuleDestroy {
  readonly #logger = new Logger('OrderList');
  #timer: NodeJS.Timeout | undefined;
  /** When the next one may start; by `performance.now()`. */
  #nextStart = 0;
  #pages = PAGES_START;
  /** Rows that the last one left. */
  #left = 0;
  #isEnding = false;

  constructor(private readonly pools: Pools) {}

  onApplicationBootstrap(): void {
    this.#timer = setInterval(() => {
      this.#start();
    }, INTERVAL_MS);
    this.#timer.unref();
  }

  onModuleDestroy(): void {
    clearInterval(this.#timer);
    this.#isEnding = true;
  }

  /**
   * Merges step by step, unless there are few rows, or one is running or has just ended.
   * @param rows of the table, when a version has been read from them; Infinity when they were too many to read
   */
  compactIfNeeded(rows: number): void {
    if (rows > 2 * this.#left + UNMERGED_MAX) {
      this.#start();
    }
  }

  #start(): void {
    if (performance.now() < this.#nextStart) {
      return;
    }
    this.#nextStart = Infinity;
    this.#merge()
      .catch((error: unknown) => {
        this.#logger.warn(`could not merge the versions of the order list: ${asError(error).message}`);
      })
      .finally(() => {
        this.#nextStart = performance.now() + PAUSE_MS;
      });
  }

  async #merge(): Promise<void> {
    for (let page: string | null = '0'; page !== null && !this.#isEnding;) {
      page = await this.#step(page);
    }
    if (!this.#isEnding) {
      const left = await this.pools.main.query<{ count: number }>(
        'SELECT count(*)::integer AS count FROM order_list_changes',
      );
      this.#left = onlyRow(left.rows).count;
    }
  }

  /** @returns the page to go on from */
  async #step(page: string): Promise<string | null> {
    const startedAt = performance.now();
    try {
      const step: QueryResult<{ page: string | null }> = await this.pools.main.query(
        // With its types: otherwise a function of the same name for text, which another login has made, would be called.
        'SELECT merge_order_list_changes($1::bigint, $2::bigint)::text AS page',
        [page, this.#pages],
      );
      if (performance.now() - startedAt < STEP_MS / 2) {
        this.#pages = Math.min(PAGES_MAX, 2 * this.#pages);
      }
      return onlyRow(step.rows).page;
    } catch (error) {
      if (sqlStateOf(error) !== QUERY_CANCELED || this.#pages === PAGES_MIN) {
        throw error;
      }
      // It took longer than the statement timeout.
      this.#pages = Math.max(PAGES_MIN, Math.floor(this.#pages / 4));
      return page;
    }
  }
}
