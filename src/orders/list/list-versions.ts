import { Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import type { QueryResultRow } from 'pg';
import { coalesce } from '../../common/coalesce.js';
import { onlyRow } from '../../database/only-row.js';
import { Pools } from '../../database/pools.js';
import { INTERNAL_ERROR, isSchemaError, QUERY_CANCELED, sqlStateOf } from '../../database/postgres-errors.js';
import { Metrics } from '../../metrics/metrics.js';
import { ListCompaction } from './list-compaction.js';
import { NO_RENEWALS, problemsOf, SELECT_FACTS } from './list-integrity.js';
import { type ListVersion, type NameRow, SELECT_NAME, versionOf } from './list-version.js';

const BEING_CHANGED = 'the tables of the list are being changed';

/** Reads the version of the list, as long as the tables, triggers and functions that it depends on are intact. */
@Injectable()
export class ListVersions implements OnApplicationBootstrap {
  readonly #logger = new Logger('OrderList');
  /** What was found in the catalogue that was checked last. */
  #checked: { readonly catalogue?: string | null; readonly problems: readonly string[] } = { problems: [] };
  #isIntact = true;

  constructor(
    private readonly pools: Pools,
    private readonly compaction: ListCompaction,
    metrics: Metrics,
  ) {
    metrics.watch('listIntact', () => this.#isIntact);
  }

  /** Checks the tables at start: the first list would wait for it, and the metric would not know yet. */
  async onApplicationBootstrap(): Promise<void> {
    await this.current().catch(() => undefined);
  }

  /**
   * The current version; undefined while there is none. Calls that arrive while a query runs share the next one.
   * @throws {Error} of the database
   */
  readonly current = coalesce(() => this.#read());

  /** Whether the list had a version when it was read last. */
  get isIntact(): boolean {
    return this.#isIntact;
  }

  /**
   * Checks a catalogue that is not the one that was checked last, or was not intact: not every repair changes it, such as the validation
   * of a constraint. The check reads the latest catalogue, which may be a newer one than that of the row. So the catalogue is read again
   * afterwards: each change gives it another text for good, so the same text means that nothing has changed in between.
   * @returns whether everything is intact, so that the row names a version
   * @throws {Error} of the database
   */
  async check({ catalogue, renewals }: NameRow): Promise<boolean> {
    if (renewals === null) {
      return this.#report([NO_RENEWALS]);
    }
    if (this.#checked.catalogue !== catalogue || this.#checked.problems.length > 0) {
      this.#checked = { catalogue, problems: await this.#findProblems(catalogue) };
    }
    return this.#report(this.#checked.problems);
  }

  async #read(): Promise<ListVersion | undefined> {
    try {
      const row = await this.#select<NameRow>('list_name', SELECT_NAME);
      if (await this.check(row)) {
        this.compaction.compactIfNeeded(row.count);
        return versionOf(row);
      }
    } catch (error) {
      if (!isSchemaError(error)) {
        throw error;
      }
      this.#report([(error as Error).message]);
    }
    return undefined;
  }

  async #findProblems(catalogue: string | null): Promise<string[]> {
    try {
      const { facts } = await this.#select<{ facts: string[] }>('list_facts', SELECT_FACTS);
      const problems = problemsOf(facts);
      const isSame = (await this.#select<NameRow>('list_name', SELECT_NAME)).catalogue === catalogue;
      return problems.length === 0 && !isSame ? [BEING_CHANGED] : problems;
    } catch (error) {
      // The functions that print definitions fail for what is dropped meanwhile.
      if (sqlStateOf(error) === INTERNAL_ERROR) {
        return [BEING_CHANGED];
      }
      throw error;
    }
  }

  /** Logs each change between intact and not. @returns whether there is no problem */
  #report(problems: readonly string[]): boolean {
    const isIntact = problems.length === 0;
    if (isIntact && !this.#isIntact) {
      this.#logger.log('serving the list from versions again');
    }
    if (!isIntact && this.#isIntact) {
      this.#logger.warn(`reading every list as a whole: ${problems.join('; ')}`);
    }
    this.#isIntact = isIntact;
    return isIntact;
  }

  async #select<T extends QueryResultRow>(name: string, text: string): Promise<T> {
    try {
      const { rows } = await this.pools.main.query<T>({ name, text });
      return onlyRow(rows);
    } catch (error) {
      if (sqlStateOf(error) === QUERY_CANCELED) {
        // So many changes that reading them exceeds the statement timeout.
        this.compaction.compactIfNeeded(Infinity);
      }
      throw error;
    }
  }
}
