import { Injectable, Logger } from '@nestjs/common';
import { asError } from '../../common/as-error.js';
import { Pools } from '../../database/pools.js';
import type { Piece } from './list-version.js';

/** Rows are compacted when there are more than twice as many as the last compaction left, and this many in addition. */
const UNCOMPACTED_MAX = 256;
/** A compaction that fails is not repeated for every list. */
const INTERVAL_MS = 1_000;

/**
 * Keeps the tokens that the versions are computed from few, and names the blocks that have none. It changes no version.
 */
@Injectable()
export class ListCompaction {
  readonly #logger = new Logger('OrderList');
  /** When the next compaction may start; by `performance.now()`. */
  #nextStart = 0;
  /** Rows that the last compaction left; undefined until they are counted. */
  #compacted: number | undefined = 0;

  constructor(private readonly pools: Pools) {}

  /** @param rows of the table, when a version has been read from them */
  compactIfNeeded(rows: number): void {
    this.#compacted ??= rows;
    if (rows > 2 * this.#compacted + UNCOMPACTED_MAX) {
      this.start();
    }
  }

  /** Compacts step by step, unless a compaction is running or has just ended. */
  start(): void {
    if (performance.now() < this.#nextStart) {
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
    for (let page: string | null = '0'; page !== null;) {
      const { rows }: { rows: { page: string | null }[] } = await this.pools.main.query(
        'SELECT compact_order_list_changes($1)::text AS page',
        [page],
      );
      page = rows[0]?.page ?? null;
    }
    this.#compacted = undefined;
  }
}
