import { Inject, Injectable, Logger } from '@nestjs/common';
import { asError } from '../../common/as-error.js';
import { coalesce } from '../../common/coalesce.js';
import { Semaphore } from '../../common/semaphore.js';
import { CONFIG, type Config } from '../../config/config.js';
import { Pools } from '../../database/pools.js';
import { databaseCall, QUERY_CANCELED, sqlStateOf } from '../../database/postgres-errors.js';
import { Metrics } from '../../metrics/metrics.js';
import { BlockCache, OVERHEAD_BYTES } from './block-cache.js';
import { deflate } from './deflate.js';
import type { DeflatedBlock } from './gzip-member.js';
import { type ListTransaction, ListTransactions } from './list-transaction.js';
import {
  BLOCK_ROWS,
  type BlockVersion,
  type BlockVersionsRow,
  idRange,
  type ListVersion,
  parseListVersion,
  SELECT_BLOCK_VERSIONS,
  SELECT_LIST_VERSION,
} from './list-version.js';
import { OrderListEncoder, ROW_BYTES_MAX } from './order-list-encoder.js';

/** The assumed size of a compressed block in which all ids are used. */
const FULL_BLOCK_BYTES = 320 * 1_024;
/** The assumed size of the compressed list in proportion to the table; measured: 0.19. */
const COMPRESSED_SHARE = 0.25;
/** Uncompressed blocks in memory per list: one is read while others are compressed. */
const PLAIN_BLOCKS_MAX = 3;
/** An uncompressed list with more missing blocks is streamed; the cache is filled after it. */
const INFLATED_AT_ONCE_MAX = 4;
/** Size of the chunks of a streamed range. */
const CHUNK_BYTES = 256 * 1_024;
const INT64_MIN = '-9223372036854775808';
/** Changes are compacted when there are more than two per block and this many in addition. */
const UNCOMPACTED_MAX = 256;

/** A piece of the list's JSON array, without the comma before it. */
export type ListPart =
  | { readonly kind: 'block'; readonly block: DeflatedBlock }
  | {
      readonly kind: 'plain';
      readonly bytes: Buffer;
      /** Whether the piece continues the one before it, with its comma. */
      readonly continued: boolean;
      /** To be called once the bytes have been used. */
      release(): void;
    };

export interface OrderList {
  /** See {@link ListVersion.name}. */
  readonly version: string;
  readonly parts: AsyncIterable<ListPart>;
  /** To be called when no more parts will be read. */
  close(): Promise<void>;
}

/** The source of a part of the list. */
type Source =
  | { readonly kind: 'block'; readonly block: DeflatedBlock | Promise<DeflatedBlock> }
  | { readonly kind: 'range'; readonly first: bigint; last: bigint };

/** A block that one list reads, for all lists that want this version of it. */
interface PendingBlock {
  readonly wanted: BlockVersion;
  readonly promise: Promise<DeflatedBlock>;
  readonly resolve: (block: DeflatedBlock) => void;
  readonly reject: (error: unknown) => void;
}

interface Plan {
  readonly sources: readonly Source[];
  /** The blocks among them that this list reads and compresses. */
  readonly own: readonly PendingBlock[];
}

/**
 * Reads the order list: current blocks from memory, the others from the database. Blocks that fit the cache are read at the
 * pace of the database, so that a slow client holds no connection; the others are streamed at the pace of the client.
 */
@Injectable()
export class OrderListReader {
  /**
   * The name of the list's current version.
   * @throws {DomainError} (by rejection) `service_unavailable`
   */
  readonly currentVersion: () => Promise<string>;
  readonly #currentBlocks: () => Promise<ListVersion>;
  readonly #logger = new Logger('OrderList');
  readonly #cache: BlockCache;
  readonly #pending = new Map<string, Promise<DeflatedBlock>>();
  #isFilling = false;
  #isCompacting = false;
  /** Rows that the last compaction left. */
  #compacted = 0;
  #readings = 0;

  constructor(
    private readonly pools: Pools,
    private readonly transactions: ListTransactions,
    @Inject(CONFIG) config: Config,
    private readonly metrics: Metrics,
  ) {
    this.#cache = new BlockCache(config.list.cacheBytes);
    this.currentVersion = coalesce(() => databaseCall(() => this.#readVersion()));
    this.#currentBlocks = coalesce(() => databaseCall(() => this.#readBlocks()));
  }

  /**
   * Opens the list in its current version and reads its first part, so that most errors occur before the response starts.
   * @param compressed whether the parts will be sent compressed
   * @throws {DomainError} `service_unavailable` when the database is unavailable or too many lists are being read
   */
  async open(compressed: boolean): Promise<OrderList> {
    const list = await this.#open(compressed);
    const parts = list.parts[Symbol.asyncIterator]();
    try {
      const first = await databaseCall(() => parts.next());
      return { ...list, parts: startingWith(first, parts) };
    } catch (error) {
      await list.close();
      throw error;
    }
  }

  /** Drops all blocks, after one was found to be corrupt. */
  clearCache(): void {
    this.#cache.clear();
  }

  async #open(compressed: boolean): Promise<OrderList> {
    const version = await this.#currentBlocks();
    if (version.changes > 2 * Math.max(version.blocks.length, this.#compacted) + UNCOMPACTED_MAX) {
      void this.#compact();
    }
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
    return this.#openFromDatabase(await this.transactions.begin(), compressed);
  }

  /** A list of blocks that are all in memory or being read; it needs no connection. */
  #openFromMemory(version: ListVersion): OrderList | undefined {
    if (version.span !== undefined) {
      return undefined;
    }
    const blocks = [];
    for (const wanted of version.blocks) {
      const block = this.#available(wanted);
      if (block === undefined) {
        return undefined;
      }
      blocks.push(block);
    }
    this.metrics.listBlocks.inc({ source: 'memory' }, blocks.length);
    return { version: version.name, parts: partsOf(blocks), close: () => Promise.resolve() };
  }

  /** A block that is in memory or being read. */
  #available(wanted: BlockVersion): DeflatedBlock | Promise<DeflatedBlock> | undefined {
    return this.#cache.get(wanted) ?? this.#pending.get(keyOf(wanted));
  }

  #openFromDatabase(transaction: ListTransaction, compressed: boolean): OrderList {
    const { version } = transaction;
    const { sources, own } = this.#plan(transaction, compressed);
    const production = this.#produce(transaction, own);
    const blocks = sources.filter((source) => source.kind === 'block').map(({ block }) => block);
    if (blocks.length === sources.length) {
      void production.then((complete) => transaction.end(complete));
      return { version: version.name, parts: partsOf(blocks), close: () => Promise.resolve() };
    }
    let allTaken = false;
    const markTaken = (): void => {
      allTaken = true;
    };
    return {
      version: version.name,
      parts: this.#partsWithRanges(transaction, sources, production, markTaken),
      close: async () => {
        await transaction.end((await production) && allTaken);
        if (allTaken && !compressed && version.span === undefined) {
          void this.#fill();
        }
      },
    };
  }

  #plan({ version: { blocks, span }, tableBytes }: ListTransaction, compressed: boolean): Plan {
    if (span !== undefined) {
      return { sources: [{ kind: 'range', ...span }], own: [] };
    }
    const sources: Source[] = [];
    const own: PendingBlock[] = [];
    const missing = blocks.filter((wanted) => this.#cache.get(wanted) === undefined).length;
    const isStreamed = !compressed && missing > INFLATED_AT_ONCE_MAX;
    let room = this.#cache.roomFor(blocks);
    const estimate = this.#estimate(tableBytes * COMPRESSED_SHARE - (this.#cache.bytesMax - room), missing);
    let inMemory = 0;
    for (const wanted of blocks) {
      const block = this.#available(wanted);
      const previous = sources.at(-1);
      if (block !== undefined) {
        inMemory++;
        sources.push({ kind: 'block', block });
      } else if (!isStreamed && room >= estimate) {
        room -= estimate;
        const pending = this.#announce(wanted);
        own.push(pending);
        sources.push({ kind: 'block', block: pending.promise });
      } else if (previous?.kind === 'range') {
        previous.last = wanted.id;
      } else {
        sources.push({ kind: 'range', first: wanted.id, last: wanted.id });
      }
    }
    this.metrics.listBlocks.inc({ source: 'memory' }, inMemory);
    this.metrics.listBlocks.inc({ source: 'database' }, blocks.length - inMemory);
    return { sources, own };
  }

  /**
   * What a missing block will need in the cache. Cached blocks alone do not tell: a list that was short until an import
   * would be read into memory as a whole.
   * @param bytes what all missing blocks will need, by the size of the table
   */
  #estimate(bytes: number, missing: number): number {
    const bySize = Math.min(FULL_BLOCK_BYTES, Math.max(0, bytes) / missing + OVERHEAD_BYTES);
    return Math.max(bySize, this.#cache.size === 0 ? 0 : this.#cache.bytes / this.#cache.size);
  }

  #announce(wanted: BlockVersion): PendingBlock {
    const { promise, resolve, reject } = withResolvers<DeflatedBlock>();
    const key = keyOf(wanted);
    this.#pending.set(key, promise);
    // Also handles the rejection for the case that no list waits for the block.
    const settled = (): boolean => this.#pending.delete(key);
    promise.then(settled, settled);
    return { wanted, promise, resolve, reject };
  }

  /**
   * Reads, compresses and caches blocks, one after the other.
   * @returns whether all could be read; never rejects
   */
  async #produce(transaction: ListTransaction, own: readonly PendingBlock[]): Promise<boolean> {
    const reading = ++this.#readings;
    const buffers = new Semaphore(PLAIN_BLOCKS_MAX);
    const spare: Buffer[] = [];
    const unread = [...own];
    try {
      for (const pending of own) {
        await buffers.acquire();
        const buffer = spare.pop() ?? Buffer.allocUnsafeSlow(BLOCK_ROWS * ROW_BYTES_MAX);
        const length = await readBlock(transaction, pending.wanted.id, buffer, (rows) =>
          this.metrics.listRows.inc(rows),
        );
        unread.shift();
        void deflate(buffer.subarray(0, length)).then(
          (block) => {
            this.#cache.set(pending.wanted, block, reading);
            pending.resolve(block);
            spare.push(buffer);
            buffers.release();
          },
          (error: unknown) => {
            pending.reject(error);
            buffers.release();
          },
        );
      }
      return true;
    } catch (error) {
      for (const pending of unread) {
        pending.reject(error);
      }
      return false;
    }
  }

  async *#partsWithRanges(
    transaction: ListTransaction,
    sources: readonly Source[],
    production: Promise<boolean>,
    markTaken: () => void,
  ): AsyncGenerator<ListPart> {
    for (const source of sources) {
      if (source.kind === 'block') {
        yield { kind: 'block', block: await source.block };
      } else {
        // The ranges use the same connection, so they are read after the blocks.
        await production;
        yield* streamRange(transaction, source.first, source.last, (rows) => this.metrics.listRows.inc(rows));
      }
    }
    markTaken();
  }

  /** Reads the missing blocks into the cache, for later lists. */
  async #fill(): Promise<void> {
    if (this.#isFilling || this.#cache.bytesMax === 0) {
      return;
    }
    this.#isFilling = true;
    try {
      await this.transactions.acquire();
      const transaction = await this.transactions.begin();
      const { own } = this.#plan(transaction, true);
      await transaction.end(await this.#produce(transaction, own));
    } catch (error) {
      this.#logger.warn(`could not fill the list cache: ${asError(error).message}`);
    } finally {
      this.#isFilling = false;
    }
  }

  async #readVersion(): Promise<string> {
    const row = await this.#queryVersion<{ name: string }>('list_version', SELECT_LIST_VERSION);
    return row.name;
  }

  async #readBlocks(): Promise<ListVersion> {
    return parseListVersion(await this.#queryVersion<BlockVersionsRow>('block_versions', SELECT_BLOCK_VERSIONS));
  }

  async #queryVersion<T extends object>(name: string, text: string): Promise<T> {
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
        void this.#compact();
      }
      throw error;
    }
  }

  /** Compacts the changes, step by step. Never rejects. */
  async #compact(): Promise<void> {
    if (this.#isCompacting) {
      return;
    }
    this.#isCompacting = true;
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
      this.#isCompacting = false;
    }
  }
}

async function* startingWith<T>(first: IteratorResult<T>, rest: AsyncIterator<T>): AsyncGenerator<T> {
  for (let next = first; next.done !== true; next = await rest.next()) {
    yield next.value;
  }
}

async function* partsOf(blocks: readonly (DeflatedBlock | Promise<DeflatedBlock>)[]): AsyncGenerator<ListPart> {
  for (const block of blocks) {
    yield { kind: 'block', block: await block };
  }
}

/** Encodes the orders of a block into a buffer. @returns how many bytes they take */
async function readBlock(
  transaction: ListTransaction,
  id: bigint,
  buffer: Buffer,
  count: (rows: number) => void,
): Promise<number> {
  let length = 0;
  const encoder = new OrderListEncoder(
    (bytes) => (length = bytes.length),
    () => buffer,
  );
  for await (const chunk of transaction.copy(...idRange(id, id))) {
    encoder.write(chunk);
  }
  encoder.end();
  count(encoder.rows);
  return length;
}

async function* streamRange(
  transaction: ListTransaction,
  first: bigint,
  last: bigint,
  count: (rows: number) => void,
): AsyncGenerator<ListPart> {
  const spare: Buffer[] = [];
  const full: Buffer[] = [];
  let continued = false;
  const encoder = new OrderListEncoder(
    (bytes) => full.push(bytes),
    () => spare.pop() ?? Buffer.allocUnsafeSlow(CHUNK_BYTES),
  );
  function* emitted(): Generator<ListPart> {
    for (const bytes of full.splice(0)) {
      yield { kind: 'plain', bytes, continued, release: () => spare.push(Buffer.from(bytes.buffer)) };
      continued = true;
    }
  }
  for await (const chunk of transaction.copy(...idRange(first, last))) {
    encoder.write(chunk);
    yield* emitted();
  }
  encoder.end();
  count(encoder.rows);
  yield* emitted();
}

function keyOf({ id, version }: BlockVersion): string {
  return `${id}@${version}`;
}

/** `Promise.withResolvers`, which Node 20 lacks. */
function withResolvers<T>(): {
  promise: Promise<T>;
  resolve: (value: T) => void;
  reject: (error: unknown) => void;
} {
  let resolve!: (value: T) => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<T>((res, rej) => {
    resolve = res;
    reject = rej;
  });
  return { promise, resolve, reject };
}
