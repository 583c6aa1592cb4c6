import { Injectable } from '@nestjs/common';
import { coalesce } from '../../common/coalesce.js';
import { Pools } from '../../database/pools.js';
import { databaseCall, QUERY_CANCELED, sqlStateOf } from '../../database/postgres-errors.js';
import { Metrics } from '../../metrics/metrics.js';
import { ListCompaction } from './list-compaction.js';
import {
  type BlockVersionsRow,
  type ListVersion,
  parseListVersion,
  SELECT_BLOCK_VERSIONS,
  SELECT_LIST_VERSION,
} from './list-version.js';

/** Reads the current versions of the list and of its blocks. Calls that arrive while a query runs share the next one. */
@Injectable()
export class ListVersionReader {
  /**
   * The name of the list's current version, see {@link ListVersion.name}.
   * @throws {DomainError} (by rejection) `service_unavailable`
   */
  readonly currentName = coalesce(() => databaseCall(() => this.#readName()));

  /** @throws {DomainError} (by rejection) `service_unavailable` */
  readonly currentBlocks = coalesce(() => databaseCall(() => this.#readBlocks()));

  #lastName: string | undefined;

  constructor(
    private readonly pools: Pools,
    private readonly compaction: ListCompaction,
    private readonly metrics: Metrics,
  ) {}

  async #readName(): Promise<string> {
    const row = await this.#query<{ name: string }>('list_version', SELECT_LIST_VERSION);
    this.#countChange(row.name);
    return row.name;
  }

  async #readBlocks(): Promise<ListVersion> {
    const version = parseListVersion(await this.#query<BlockVersionsRow>('block_versions', SELECT_BLOCK_VERSIONS));
    if (this.compaction.isDue(version)) {
      void this.compaction.run();
    }
    this.#countChange(version.name);
    return version;
  }

  #countChange(name: string): void {
    if (this.#lastName !== undefined && name !== this.#lastName) {
      this.metrics.listVersionChanges.inc();
    }
    this.#lastName = name;
  }

  async #query<T extends object>(name: string, text: string): Promise<T> {
    try {
      const { rows } = await this.pools.main.query<T>({ name, text });
      const [row] = rows;
      if (row === undefined) {
        throw new TypeError('The versions of the order list are missing.');
      }
      return row;
    } catch (error) {
      if (sqlStateOf(error) === QUERY_CANCELED) {
        // So many changes that reading them exceeds the statement timeout.
        void this.compaction.run();
      }
      throw error;
    }
  }
}
