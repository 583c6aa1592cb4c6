import { Injectable, Logger } from '@nestjs/common';
import type { QueryResult } from 'pg';
import { asError } from '../../common/as-error.js';
import { onlyRow } from '../../database/only-row.js';
import { Pools } from '../../database/pools.js';
import type { Piece } from './list-version.js';

/** Rows are compacted when there are more than twice as many as the last compaction left, and this many in addition. */
const UNCOMPACTED_MAX = 256;
/** A compaction that fails is not repeated for every list. */
const INTERVAL_MS = 1_000;

/** Compacts the tokens of the versions, and notes blocks that have none. It changes no version. */
@Injectable()
export class ListCompaction {
  readonly #logger = new Logger('OrderList');
  /** When the next compaction may start; by `performance.now()`. */
  #nextStart = 0;
  /** Rows that the last compaction left. */
  #compacted = 0;

  constructor(private readonly pools: Pools) {}

  /**
   * Compacts step by step, unless there are few rows, or a compaction is running or has just ended.
   * @param rows of the table, when a version has been read from them; Infinity when they were too many to read
   */
  compactIfNeeded(rows: number): void {
    if (rows <= 2 * this.#compacted + UNCOMPACTED_MAX || performance.now() < this.#nextStart) {
      return;
    }
    this.#nextStart = Infinity;
    this.#compact()
      .catch((error: unknown) => {
        this.#logger.warn(`could not compact the versions of the order list: ${asError(error).message}`);
      })
      .finally(() => {
        this.#nextStart = performance.now() + INTERVAL_MS;
      });
  }

  /** Names the blocks of a piece that turned out to be large: its orders were loaded while the triggers were off. */
  noteBlocks({ first, last }: Piece): void {
    this.pools.main.query('SELECT note_order_list_blocks($1, $2)', [first, last]).catch((error: unknown) => {
      this.#logger.warn(`could not note the blocks of the order list: ${asError(error).message}`);
    });
  }

  async #compact(): Promise<void> {
    const { main } = this.pools;
    for (let page: string | null = '0'; page !== null;) {
      const step: QueryResult<{ page: string | null }> = await main.query(
        'SELECT compact_order_list_changes($1)::text AS page',
        [page],
      );
      ({ page } = onlyRow(step.rows));
    }
    const left = await main.query<{ count: number }>('SELECT count(*)::integer AS count FROM order_list_changes');
    this.#compacted = onlyRow(left.rows).count;
  }
}
