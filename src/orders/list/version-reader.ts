import { Injectable, Logger } from '@nestjs/common';
import type { Pool, PoolClient, QueryResultRow } from 'pg';
import { shareNextRun } from '../../common/share-next-run.js';
import { onlyRow } from '../../database/only-row.js';
import { Pools } from '../../database/pools.js';
import { Metrics } from '../../metrics/metrics.js';
import {
  type ListVersion,
  type NameRow,
  NO_RENEWALS,
  SELECT_NAME,
  SELECT_PROBLEMS,
  versionOf,
} from './list-version.js';

/** How long the server may take. Milliseconds. */
const QUERY_TIMEOUT_MS = 4_000;

/** Reads the version of the list, as long as the tables and triggers that it depends on are intact. */
@Injectable()
export class VersionReader {
  readonly #logger = new Logger('OrderList');
  #isIntact = true;
  /** The latest catalogue without problems. */
  #intactCatalogue: string | undefined;

  constructor(
    private readonly pools: Pools,
    metrics: Metrics,
  ) {
    metrics.watch('listIntact', () => this.#isIntact);
  }

  /** The current version. Calls that arrive while a query runs share the next one. */
  readonly current = shareNextRun(() => this.read(this.pools.main));

  /** @returns undefined while there is none @throws {Error} of the database */
  async read(db: Pool | PoolClient): Promise<ListVersion | undefined> {
    const row = onlyRow(await rowsOf<NameRow>(db, 'list_name', SELECT_NAME));
    const problems = await this.#problemsOf(db, row);
    this.#report(problems);
    return problems.length === 0 ? versionOf(row) : undefined;
  }

  async #problemsOf(db: Pool | PoolClient, { catalogue, renewals }: NameRow): Promise<readonly string[]> {
    if (renewals === null) {
      return [NO_RENEWALS];
    }
    if (catalogue === this.#intactCatalogue) {
      return [];
    }
    const [row] = await rowsOf<{ problems: string[] }>(db, 'list_problems', SELECT_PROBLEMS, [catalogue]);
    const { problems } = row ?? { problems: ['the tables of the list are being changed'] };
    if (problems.length === 0) {
      this.#intactCatalogue = catalogue;
    }
    return problems;
  }

  /** Logs each change between intact and not. */
  #report(problems: readonly string[]): void {
    const isIntact = problems.length === 0;
    if (isIntact && !this.#isIntact) {
      this.#logger.log('serving the list from versions again');
    }
    if (!isIntact && this.#isIntact) {
      this.#logger.warn(`reading every list as a whole: ${problems.join('; ')}`);
    }
    this.#isIntact = isIntact;
  }
}

async function rowsOf<T extends QueryResultRow>(
  db: Pool | PoolClient,
  name: string,
  text: string,
  values: unknown[] = [],
): Promise<T[]> {
  const query = { name, text, values, query_timeout: QUERY_TIMEOUT_MS };
  return (await db.query<T>(query)).rows;
}
