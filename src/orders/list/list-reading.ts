import { asError } from '../../common/as-error.js';
import type { Slot } from '../../common/fair-slots.js';
import { inBackground } from '../../common/in-background.js';
import type { Metrics } from '../../metrics/metrics.js';
import { deflate, type DeflatedChunk, expectedSize } from './gzip.js';
import { CachedChunk, type ListChunk, ReadChunk } from './list-chunk.js';
import type { ListCompaction } from './list-compaction.js';
import type { ListTransaction } from './list-transaction.js';
import type { Piece } from './list-version.js';
import { ClientDisconnected } from './list-writer.js';
import { type EncodedChunk, OrderListEncoder } from './order-list-encoder.js';
import type { PieceCache, PieceUser } from './piece-cache.js';

/** Pieces that one COPY message asks for. */
const COPIED_PIECES_MAX = 64;
/** Memory for chunks that are not in the cache: one is encoded while two or three others are compressed or sent. */
const OWN_BYTES_MAX = 4 * 1_048_576;
/**
 * How long a list may wait for its client in all while it holds a slot and, until all is read, a transaction: behind an ALTER TABLE
 * that waits, cancels wait, too.
 */
const CLIENT_PACED_MAX_MS = 60_000;
/** After this time a list gives up its slot when a key with fewer slots waits, even one that never waits for its client. Milliseconds. */
const UNDISTURBED_MS = 2_000;
/** A piece of more chunks than this for each block of a group is divided for later lists. */
const CHUNKS_PER_BLOCK_MAX = 4;

export interface ReadingOptions {
  readonly transaction: ListTransaction;
  readonly slot: Slot;
  readonly cache: PieceCache;
  /** The list; it can be cut because another one needs its slot, or because its client is too slow. */
  readonly user: PieceUser;
  /** Whether the chunks will be sent compressed. */
  readonly isCompressed: boolean;
  /** Called when the pieces that the cache has room for are in it, or will not be; perhaps more than once. */
  readonly onFilled: () => void;
  readonly compaction: Pick<ListCompaction, 'noteBlocks'>;
  readonly metrics: Pick<Metrics, 'listPieces' | 'listRows'>;
}

/**
 * Reads a list from one snapshot, piece after piece, in a bounded amount of memory in addition to that of the cache. Pieces in memory
 * come from there. The others are read at the pace of the database as long as they fit the cache, so that a slow client holds no
 * connection, and at the pace of the client otherwise.
 */
export class ListReading {
  readonly #encoder = new OrderListEncoder();
  /** Chunks that the client has not taken. */
  readonly #queue: ListChunk[] = [];
  readonly #queued = new Signal();
  /** Chunks with memory of their own. */
  readonly #own = new Set<ReadChunk>();
  /** Chunks of pieces that do not fit the cache as a whole: it has reserved memory for them until they are sent. */
  readonly #reserved = new Map<ReadChunk, DeflatedChunk>();
  readonly #freed = new Signal();
  #clientPacedMs = 0;
  #isClosed = false;
  #end: { readonly error?: Error } | undefined;

  constructor(private readonly options: ReadingOptions) {}

  /** Reads everything. Never rejects. */
  async run(): Promise<void> {
    const { transaction, slot, user, onFilled } = this.options;
    const timer = setTimeout(() => {
      slot.yieldBy(user.cut);
    }, UNDISTURBED_MS);
    try {
      await this.#readAll();
      this.#end = {};
    } catch (error) {
      this.#end = { error: asError(error) };
    }
    clearTimeout(timer);
    this.#encoder.close();
    this.#queued.notify();
    onFilled();
    await transaction.end(this.#end.error === undefined);
    await this.#restIsTaken();
    slot.release();
  }

  /** Resolves when there is a chunk, or no more of them. @throws {Error} when reading has failed @throws {ClientDisconnected} */
  async ready(): Promise<void> {
    while (this.#queue.length === 0 && this.#end === undefined) {
      if (this.#isClosed) {
        throw new ClientDisconnected();
      }
      await this.#queued.wait();
    }
    if (this.#queue.length === 0 && this.#end?.error !== undefined) {
      throw this.#end.error;
    }
  }

  async *chunks(): AsyncGenerator<ListChunk> {
    for (;;) {
      await this.ready();
      const chunk = this.#queue.shift();
      if (chunk === undefined) {
        return;
      }
      yield chunk;
    }
  }

  /** Call when no more chunks will be taken: reading fails from now on. */
  close(): void {
    this.#isClosed = true;
    for (const chunk of this.#reserved.keys()) {
      this.#giveBack(chunk);
    }
    this.#freed.notify();
    this.#queued.notify();
  }

  async #readAll(): Promise<void> {
    const { cache, transaction, user, metrics } = this.options;
    if (transaction.version === undefined) {
      await this.#copy(transaction.copyAll(), [undefined]);
      return;
    }
    const { pieces } = transaction.version;
    cache.show(pieces);
    let index = 0;
    for (let piece = pieces[index]; piece !== undefined; piece = pieces[index]) {
      const cached = cache.get(piece.key);
      if (cached !== undefined) {
        cache.hold(user, cached);
        metrics.listPieces.labels('memory').inc();
        this.#put(...cached.chunks.map((chunk) => new CachedChunk(chunk)));
        index++;
      } else {
        const missing = this.#missingFrom(pieces, index);
        metrics.listPieces.labels('database').inc(missing.length);
        await this.#copy(transaction.copyPieces(missing), missing);
        index += missing.length;
      }
    }
  }

  /** The pieces from one on that are not in memory. */
  #missingFrom(pieces: readonly Piece[], first: number): readonly Piece[] {
    const others = pieces.slice(first + 1, first + COPIED_PIECES_MAX);
    const found = others.findIndex(({ key }) => this.options.cache.get(key) !== undefined);
    return pieces.slice(first, first + 1 + (found === -1 ? others.length : found));
  }

  /** @param pieces what the statements of the copy read, in order; undefined for the whole table */
  async #copy(copy: AsyncGenerator<Buffer>, pieces: readonly (Piece | undefined)[]): Promise<void> {
    for (const piece of pieces) {
      await this.#readPiece(copy, piece);
    }
    await copy.next();
  }

  async #readPiece(copy: AsyncGenerator<Buffer>, piece: Piece | undefined): Promise<void> {
    const chunks: ReadChunk[] = [];
    let isWhole = false;
    try {
      for await (const chunk of this.#encode(copy)) {
        chunks.push(this.#putRead(chunk, piece !== undefined));
      }
      isWhole = true;
    } finally {
      if (piece !== undefined) {
        inBackground(this.#keep(piece, chunks, isWhole));
      }
    }
    const { blocksPerGroup = 1 } = this.options.transaction.version ?? {};
    if (piece !== undefined && chunks.length > CHUNKS_PER_BLOCK_MAX * blocksPerGroup) {
      this.options.compaction.noteBlocks(piece);
    }
  }

  /** The chunks of the next statement of a copy, each as soon as there is memory for it. */
  async *#encode(copy: AsyncGenerator<Buffer>): AsyncGenerator<EncodedChunk> {
    const encoder = this.#encoder;
    for (let next = await copy.next(); next.done !== true && next.value.length > 0; next = await copy.next()) {
      for (let from = 0; from < next.value.length;) {
        if (!encoder.hasChunk) {
          await this.#memory();
          encoder.startChunk();
        }
        from = encoder.write(next.value, from);
        if (encoder.isFull) {
          yield encoder.endChunk();
        }
      }
    }
    if (encoder.hasChunk) {
      yield encoder.endChunk();
    }
  }

  /** @param mayKeep whether the cache may keep the chunk */
  #putRead({ bytes, rows }: EncodedChunk, mayKeep: boolean): ReadChunk {
    const { cache, isCompressed, metrics, onFilled } = this.options;
    metrics.listRows.inc(rows);
    const fits = mayKeep && cache.hasRoomFor(expectedSize(bytes));
    if (!fits) {
      onFilled();
    }
    const compressing =
      isCompressed || fits
        ? deflate(bytes).then((chunk) => ({ chunk, isKept: mayKeep && cache.reserve(chunk) }))
        : undefined;
    const onFreed = (): void => {
      if (chunk.ownBytes === 0) {
        this.#own.delete(chunk);
      }
      this.#giveBack(chunk);
      this.#freed.notify();
    };
    const chunk = new ReadChunk(bytes, compressing, !isCompressed, onFreed, (plain) => {
      this.#encoder.recycle(plain);
    });
    this.#own.add(chunk);
    this.#put(chunk);
    return chunk;
  }

  #put(...chunks: readonly ListChunk[]): void {
    this.#queue.push(...chunks);
    this.#queued.notify();
  }

  /**
   * Puts a piece into the cache once it is compressed, if all of it fits. Lists that have read the same piece share the memory of the
   * first one, so that what waits for their clients counts as memory of the cache, or as their own.
   */
  async #keep({ key }: Piece, chunks: readonly ReadChunk[], isWhole: boolean): Promise<void> {
    const { cache, user } = this.options;
    const results = await Promise.allSettled(chunks.map(async ({ compressing }) => compressing));
    // An error is that of sending the chunk.
    const reserved = results.map((result) =>
      result.status === 'fulfilled' && result.value?.isKept === true ? result.value.chunk : undefined,
    );
    const kept = reserved.filter((chunk) => chunk !== undefined);
    const piece = isWhole && kept.length === chunks.length ? cache.add(key, kept, user) : undefined;
    for (const [index, chunk] of chunks.entries()) {
      const [shared, own] = [piece?.chunks[index], reserved[index]];
      if (shared !== undefined) {
        chunk.replaceBy(shared);
      } else if (own !== undefined) {
        this.#reserved.set(chunk, own);
        this.#giveBack(chunk);
      }
    }
  }

  /** Gives the memory that is reserved for a chunk back to the cache, once it is sent or will not be. */
  #giveBack(chunk: ReadChunk): void {
    const reserved = this.#reserved.get(chunk);
    if (reserved !== undefined && (this.#isClosed || chunk.isReleased)) {
      this.#reserved.delete(chunk);
      this.options.cache.cancel([reserved]);
    }
  }

  /** Resolves when there is memory for one more chunk. @throws {ClientDisconnected} when the list has been closed */
  async #memory(): Promise<void> {
    while (!this.#isClosed && this.#ownBytes() > OWN_BYTES_MAX) {
      const own = [...this.#own];
      // The latest is sent last.
      if (own.findLast((chunk) => chunk.giveUpPlain()) === undefined) {
        await this.#freedFrom(own);
      }
    }
    if (this.#isClosed) {
      throw new ClientDisconnected();
    }
  }

  /**
   * Resolves when the client has taken all that is not in the cache, so that the number of slots bounds the memory of slow lists.
   * What is in the cache is decompressed again when it is sent.
   */
  async #restIsTaken(): Promise<void> {
    const rest = (): ReadChunk[] => {
      this.#own.forEach((chunk) => chunk.giveUpPlain());
      return [...this.#own].filter(({ isKept }) => !isKept);
    };
    for (let chunks = rest(); !this.#isClosed && chunks.length > 0; chunks = rest()) {
      await this.#freedFrom(chunks);
    }
  }

  #freedFrom(chunks: readonly ReadChunk[]): Promise<void> {
    const freed = this.#freed.wait();
    return chunks.some(({ isCompressing }) => isCompressing) ? freed : this.#waitForClient(freed);
  }

  #ownBytes(): number {
    return [...this.#own].reduce((sum, { ownBytes }) => sum + ownBytes, 0);
  }

  async #waitForClient(freed: Promise<void>): Promise<void> {
    const { user, slot, onFilled } = this.options;
    onFilled();
    slot.yieldBy(user.cut);
    const startedAt = performance.now();
    const timer = setTimeout(user.cut, CLIENT_PACED_MAX_MS - this.#clientPacedMs);
    await freed;
    clearTimeout(timer);
    this.#clientPacedMs += performance.now() - startedAt;
  }
}

/** Wakes the one who waits. */
class Signal {
  #wake: () => void = () => undefined;

  /** Resolves with the next {@link notify}. */
  wait(): Promise<void> {
    return new Promise((resolve) => (this.#wake = resolve));
  }

  notify(): void {
    this.#wake();
  }
}
