import { Injectable } from '@nestjs/common';
import { coalesce } from '../../common/coalesce.js';
import type { ListPools } from '../../database/pools.js';
import { databaseCall, QUERY_CANCELED, sqlStateOf } from '../../database/postgres-errors.js';
import { Metrics } from '../../metrics/metrics.js';
import { ListCompaction } from './list-compaction.js';
import { ReplicaFallback } from './replica-fallback.js';
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
  readonly currentName = coalesce(() => databaseCall(() => this.database.read((server) => this.#readName(server))));
  readonly #blocksOf = new WeakMap<ListPools, () => Promise<ListVersion>>();

  #lastName: string | undefined;

  constructor(
    private readonly database: ReplicaFallback,
    private readonly compaction: ListCompaction,
    private readonly metrics: Metrics,
  ) {}

  /** @throws {Error} of the database */
  currentBlocks(server: ListPools): Promise<ListVersion> {
    const read = this.#blocksOf.get(server) ?? coalesce(() => this.#readBlocks(server));
    this.#blocksOf.set(server, read);
    return read();
  }

  async #readName(server: ListPools): Promise<string> {
    const row = await this.#query<{ name: string }>(server, 'list_version', SELECT_LIST_VERSION);
    this.#countChange(row.name);
    return row.name;
  }

  async #readBlocks(server: ListPools): Promise<ListVersion> {
    const row = await this.#query<BlockVersionsRow>(server, 'block_versions', SELECT_BLOCK_VERSIONS);
    const version = parseListVersion(row);
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

  async #query<T extends object>({ main }: ListPools, name: string, text: string): Promise<T> {
    try {
      const { rows } = await main.query<T>({ name, text });
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
