import { Injectable, Logger } from '@nestjs/common';
import { asError } from '../../common/as-error.js';
import { Pools } from '../../database/pools.js';
import type { ListVersion } from './list-version.js';

/** Changes are compacted when there are more than two per block and this many in addition. */
const UNCOMPACTED_MAX = 256;
/** A replica may show the changes of before the last compaction, so that every list would cause another one. */
const INTERVAL_MS = 1_000;
const INT64_MIN = '-9223372036854775808';

/** Compacts the changes that the versions of the list are computed from. Always on the primary: a standby is read-only. */
@Injectable()
export class ListCompaction {
  readonly #logger = new Logger('OrderList');
  #isRunning = false;
  #lastEnd = -INTERVAL_MS;
  /** Rows that the last compaction left. */
  #compacted = 0;

  constructor(private readonly pools: Pools) {}

  isDue({ blocks, changes }: ListVersion): boolean {
    return changes > 2 * Math.max(blocks.length, this.#compacted) + UNCOMPACTED_MAX;
  }

  /** Compacts step by step, unless a compaction is running or has just ended. Never rejects. */
  async run(): Promise<void> {
    if (this.#isRunning || performance.now() < this.#lastEnd + INTERVAL_MS) {
      return;
    }
    this.#isRunning = true;
    try {
      let last: string | null = INT64_MIN;
      while (last !== null) {
        const { rows }: { rows: { last: string | null }[] } = await this.pools.main.query(
          'SELECT compact_order_list_changes($1) AS last',
          [last],
        );
        last = rows[0]?.last ?? null;
      }
      const { rows } = await this.pools.main.query<{ rows: number }>(
        'SELECT count(*)::integer AS rows FROM order_list_changes',
      );
      this.#compacted = rows[0]?.rows ?? 0;
    } catch (error) {
      this.#logger.warn(`could not compact the versions of the order list: ${asError(error).message}`);
    } finally {
      this.#isRunning = false;
      this.#lastEnd = performance.now();
    }
  }
}
