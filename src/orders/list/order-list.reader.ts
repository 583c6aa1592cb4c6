import { Inject, Injectable, Logger } from '@nestjs/common';
import { asError } from '../../common/as-error.js';
import { CONFIG, type Config } from '../../config/config.js';
import type { ListPools } from '../../database/pools.js';
import { databaseCall } from '../../database/postgres-errors.js';
import { Metrics } from '../../metrics/metrics.js';
import { BlockCache } from './block-cache.js';
import { BlockReader } from './block-reader.js';
import { ReplicaFallback } from './replica-fallback.js';
import { blockParts, type ListPart, startingWith, streamRange } from './list-parts.js';
import { planList, type Source } from './list-plan.js';
import { type ListTransaction, ListTransactions } from './list-transaction.js';
import type { ListVersion } from './list-version.js';
import { ListVersionReader } from './list-version.reader.js';

export interface OrderList {
  /** See {@link ListVersion.name}. */
  readonly version: string;
  readonly parts: AsyncIterable<ListPart>;
  /** To be called when no more parts will be read. */
  close(): Promise<void>;
}

/**
 * Reads the order list: current blocks from memory, the others from the database. Blocks that fit the cache are read at the
 * pace of the database, so that a slow client holds no connection; the others are streamed at the pace of the client.
 */
@Injectable()
export class OrderListReader {
  readonly #logger = new Logger('OrderList');
  readonly #cache: BlockCache;
  readonly #countRows = (rows: number): void => this.metrics.listRows.inc(rows);
  #isFilling = false;
  /** An uncompressed list is being streamed at the pace of its client. */
  #isStreaming = false;

  constructor(
    private readonly database: ReplicaFallback,
    private readonly versions: ListVersionReader,
    private readonly transactions: ListTransactions,
    @Inject(CONFIG) config: Config,
    private readonly metrics: Metrics,
  ) {
    this.#cache = new BlockCache(config.list.cacheBytes);
  }

  /**
   * Opens the list in its current version and reads its first part, so that most errors occur before the response starts.
   * @param compressed whether the parts will be sent compressed
   * @throws {DomainError} `service_unavailable` when the database is unavailable or too many lists are being read
   */
  async open(compressed: boolean): Promise<OrderList> {
    return databaseCall(() => this.database.read((server) => this.#openOn(server, compressed)));
  }

  /** Drops all blocks, after one was found to be corrupt. */
  clearCache(): void {
    this.#cache.clear();
  }

  async #openOn(server: ListPools, compressed: boolean): Promise<OrderList> {
    const list = await this.#find(server, compressed);
    const parts = list.parts[Symbol.asyncIterator]();
    try {
      const first = await parts.next();
      return { ...list, parts: startingWith(first, parts) };
    } catch (error) {
      await list.close();
      throw error;
    }
  }

  async #find(server: ListPools, compressed: boolean): Promise<OrderList> {
    const version = await this.versions.currentBlocks(server);
    const inMemory = this.#openFromMemory(version);
    if (inMemory !== undefined) {
      return inMemory;
    }
    await this.transactions.acquire();
    // Another list may have begun to read the same blocks meanwhile.
    const shared = this.#openFromMemory(version);
    if (shared !== undefined) {
      this.transactions.release();
      return shared;
    }
    return this.#openFromDatabase(await this.transactions.begin(server), compressed);
  }

  /** A list of blocks that are all in memory or being read; it needs no connection. */
  #openFromMemory({ name, blocks, span }: ListVersion): OrderList | undefined {
    const found = blocks.map((wanted) => this.#cache.getOrAwait(wanted));
    if (span !== undefined || !found.every((block) => block !== undefined)) {
      return undefined;
    }
    this.metrics.listBlocks.inc({ source: 'memory' }, found.length);
    return { version: name, parts: blockParts(found), close: () => Promise.resolve() };
  }

  #openFromDatabase(transaction: ListTransaction, compressed: boolean): OrderList {
    const { version } = transaction;
    // One list at a time: slow clients would otherwise hold every connection until the first of them fills the cache.
    const mayStream = !compressed && !this.#isStreaming;
    const { sources, finished } = this.#startReading(transaction, !mayStream);
    const blocks = sources.filter((source) => source.kind === 'block').map(({ block }) => block);
    if (blocks.length === sources.length) {
      void finished.then((complete) => transaction.end(complete));
      return { version: version.name, parts: blockParts(blocks), close: () => Promise.resolve() };
    }
    this.#isStreaming ||= mayStream;
    let allTaken = false;
    const markTaken = (): void => {
      allTaken = true;
    };
    return {
      version: version.name,
      parts: this.#partsOf(sources, transaction, finished, markTaken),
      close: async () => {
        if (mayStream) {
          this.#isStreaming = false;
        }
        await transaction.end((await finished) && allTaken);
        if (allTaken && mayStream && version.span === undefined) {
          void this.#fill();
        }
      },
    };
  }

  /**
   * Starts to read missing blocks, see {@link planList}.
   * @returns with `finished` whether all of them could be read
   */
  #startReading(transaction: ListTransaction, readAhead: boolean): { sources: Source[]; finished: Promise<boolean> } {
    const reader = new BlockReader(transaction, this.#cache, this.#countRows);
    const sources = planList(
      transaction,
      this.#cache,
      (wanted) => reader.read(wanted),
      readAhead,
      this.metrics.listBlocks,
    );
    return { sources, finished: reader.finished() };
  }

  async *#partsOf(
    sources: readonly Source[],
    transaction: ListTransaction,
    finished: Promise<boolean>,
    onEnd: () => void,
  ): AsyncGenerator<ListPart> {
    for (const source of sources) {
      if (source.kind === 'block') {
        yield { kind: 'block', block: await source.block };
      } else {
        // The ranges use the same connection, so they are read after the blocks.
        await finished;
        yield* streamRange(transaction, source, this.#countRows);
      }
    }
    onEnd();
  }

  /** Reads the missing blocks into the cache, for later lists. */
  async #fill(): Promise<void> {
    if (this.#isFilling || this.#cache.bytesMax === 0) {
      return;
    }
    this.#isFilling = true;
    try {
      await this.database.read(async (server) => {
        await this.transactions.acquire();
        const transaction = await this.transactions.begin(server);
        await transaction.end(await this.#startReading(transaction, true).finished);
      });
    } catch (error) {
      this.#logger.warn(`could not fill the list cache: ${asError(error).message}`);
    } finally {
      this.#isFilling = false;
    }
  }
}
