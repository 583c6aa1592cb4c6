import type { Slot } from '../../common/fair-slots.js';
import { deflate, expectedSize } from './gzip.js';
import { ReadChunk } from './list-chunk.js';
import { ClientDisconnected } from './list-writer.js';
import type { PieceCache, PieceUser } from './piece-cache.js';

/** Memory for chunks that are not in the cache: one is encoded while two or three others are compressed or sent. */
const OWN_BYTES_MAX = 4 * 1_048_576;
/**
 * How long a list may wait for its client in all while it holds a slot and, until all is read, a transaction. An ALTER TABLE waits for
 * this transaction, and cancels wait for the ALTER TABLE.
 */
const CLIENT_PACED_MAX_MS = 60_000;

export interface UnsentOptions {
  readonly slot: Slot;
  readonly cache: PieceCache;
  /** The list; it can be cut because another one needs its slot, or because its client is too slow. */
  readonly user: PieceUser;
  /** Whether the chunks will be sent compressed. */
  readonly isCompressed: boolean;
  /** Called when the pieces that the cache has room for are in it, or will not be; perhaps more than once. */
  readonly onFilled: () => void;
}

/** Holds what a list has read until it is in the cache or sent, in a bounded amount of memory in addition to that of the cache. */
export class UnsentChunks {
  /** Chunks with memory of their own. */
  readonly #own = new Set<ReadChunk>();
  /** Chunks of pieces that do not fit the cache as a whole. Their compressed bytes count as memory of the cache until they are sent. */
  readonly #reserved = new Set<ReadChunk>();
  /** Wakes the one who waits for memory. */
  #onFreed: () => void = () => undefined;
  #clientPacedMs = 0;
  /** Whether no more chunks will be taken. */
  isClosed = false;

  /** @param recycle called with the plain bytes of a chunk when nobody will read them any more */
  constructor(
    private readonly options: UnsentOptions,
    private readonly recycle: (plain: Buffer) => void,
  ) {}

  /** Call when no more chunks will be taken. */
  close(): void {
    this.isClosed = true;
    for (const chunk of this.#reserved) {
      this.#giveBack(chunk);
    }
    this.#onFreed();
  }

  /** Resolves when there is memory for one more chunk. @throws {ClientDisconnected} when the list has been closed */
  async room(): Promise<void> {
    while (!this.isClosed && this.#ownBytes() > OWN_BYTES_MAX) {
      await this.#freedFrom([...this.#own]);
    }
    if (this.isClosed) {
      throw new ClientDisconnected();
    }
  }

  /** @param mayKeep whether the cache may keep the chunk */
  add(bytes: Buffer, mayKeep: boolean): ReadChunk {
    const { cache, isCompressed, onFilled } = this.options;
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
      this.#onFreed();
    };
    const chunk = new ReadChunk(bytes, compressing, !isCompressed, onFreed, this.recycle);
    this.#own.add(chunk);
    return chunk;
  }

  /**
   * Puts a piece into the cache once it is compressed, if all of it fits. Lists that have read the same piece share the memory of the
   * first one, so that what waits for their clients counts as memory of the cache, or as their own.
   * @param chunks of the piece, as {@link add} returned them
   * @param isWhole whether they are all of it
   */
  async keep(key: string, chunks: readonly ReadChunk[], isWhole: boolean): Promise<void> {
    const { cache, user } = this.options;
    // An error is that of sending the chunk.
    await Promise.allSettled(chunks.map(async ({ compressing }) => compressing));
    const kept = chunks.flatMap((chunk) => chunk.kept ?? []);
    const piece = isWhole && kept.length === chunks.length ? cache.add(key, kept, user) : undefined;
    for (const [index, chunk] of chunks.entries()) {
      const shared = piece?.chunks[index];
      if (shared !== undefined) {
        chunk.replaceBy(shared);
      } else if (chunk.kept !== undefined) {
        this.#reserved.add(chunk);
        this.#giveBack(chunk);
      }
    }
  }

  /**
   * Resolves when the client has taken all that is not in the cache, so that the number of slots bounds the memory of slow lists.
   * What is in the cache is decompressed again when it is sent.
   */
  async restIsTaken(): Promise<void> {
    const rest = (): ReadChunk[] => [...this.#own].filter(({ kept }) => kept === undefined);
    for (let chunks = rest(); !this.isClosed && chunks.length > 0; chunks = rest()) {
      await this.#freedFrom(chunks);
    }
  }

  /** Gives the memory that is reserved for a chunk back to the cache, once it is sent or will not be. */
  #giveBack(chunk: ReadChunk): void {
    if (chunk.kept !== undefined && (this.isClosed || chunk.isReleased) && this.#reserved.delete(chunk)) {
      this.options.cache.cancel([chunk.kept]);
    }
  }

  #freedFrom(chunks: readonly ReadChunk[]): Promise<void> {
    const freed = new Promise<void>((resolve) => (this.#onFreed = resolve));
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
