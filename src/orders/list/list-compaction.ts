import { Injectable, Logger, type OnApplicationBootstrap, type OnModuleDestroy } from '@nestjs/common';
import type { QueryResult } from 'pg';
import { asError } from '../../common/as-error.js';
import { onlyRow } from '../../database/only-row.js';
import { Pools } from '../../database/pools.js';

/** Milliseconds. */
const INTERVAL_MS = 5_000;
/** Pages that one transaction looks through, up to 185 rows each: far less than the statement timeout allows. */
const PAGES = 250;

/** Merges rows of the versions, so that there are never many to be summed up. It changes no version. */
@Injectable()
export class ListCompaction implements OnApplicationBootstrap, OnModuleDestroy {
  readonly #logger = new Logger('OrderList');
  #timer: NodeJS.Timeout | undefined;
  #isEnding = false;

  constructor(private readonly pools: Pools) {}

  onApplicationBootstrap(): void {
    this.#timer = setInterval(() => {
      this.#merge().catch((error: unknown) => {
        this.#logger.warn(`could not merge the versions of the order list: ${asError(error).message}`);
      });
    }, INTERVAL_MS).unref();
  }

  onModuleDestroy(): void {
    clearInterval(this.#timer);
    this.#isEnding = true;
  }

  async #merge(): Promise<void> {
    for (let page: string | null = '0'; page !== null && !this.#isEnding;) {
      const step: QueryResult<{ page: string | null }> = await this.pools.main.query(
        'SELECT merge_order_list_changes($1, $2)::text AS page',
        [page, PAGES],
      );
      page = onlyRow(step.rows).page;
    }
  }
}
