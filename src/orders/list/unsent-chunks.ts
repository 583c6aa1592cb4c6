import type { Slot } from '../../common/fair-slots.js';
import { freeBuffer } from '../../common/free-buffer.js';
import { inBackground } from '../../common/in-background.js';
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

/** A piece that is being read. */
export interface ReadPiece {
  /** All chunks of it so far; undefined when it will not be kept. */
  chunks: ReadChunk[] | undefined;
  /** Set at its end. */
  key?: string;
}

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
  /** Chunks with memory of the cache. */
  readonly #reserved = new Set<ReadChunk>();
  /** Chunks that are being compressed. */
  #compressing = 0;
  /** Ends the current wait for memory or for the client. */
  #onFreed: () => void = () => undefined;
  #clientPacedMs = 0;
  /** Whether no more chunks will be taken. */
  #isClosed = false;

  /** @param recycle called with the plain bytes of a chunk when they are not needed any more */
  constructor(
    private readonly options: UnsentOptions,
    private readonly recycle: (plain: Buffer) => void,
  ) {}

  /** Call when no more chunks will be taken. */
  close(): void {
    this.#isClosed = true;
    this.#giveBack(this.#reserved);
    this.#onFreed();
  }

  /** Resolves when there is memory for one more chunk. @throws {ClientDisconnected} when the list has been closed */
  async room(): Promise<void> {
    const ownBytes = (): number => [...this.#own].reduce((sum, chunk) => sum + chunk.ownBytes, 0);
    await this.#until(() => ownBytes() <= OWN_BYTES_MAX);
    if (this.#isClosed) {
      throw new ClientDisconnected();
    }
  }

  /** @param piece which it is the next chunk of */
  add(bytes: Buffer, piece: ReadPiece): ReadChunk {
    const { cache, isCompressed, onFilled } = this.options;
    const reserved = piece.chunks === undefined || this.#isClosed ? 0 : cache.reserve(expectedSize(bytes));
    const chunk = new ReadChunk(bytes, isCompressed || reserved > 0 ? deflate(bytes) : undefined);
    this.#own.add(chunk);
    if (reserved > 0) {
      chunk.reserved = reserved;
      this.#reserved.add(chunk);
      piece.chunks?.push(chunk);
    } else {
      // The others keep what is reserved for them until they are sent.
      this.#giveBack(piece.chunks?.filter(({ isSent }) => isSent) ?? []);
      piece.chunks = undefined;
      onFilled();
    }
    inBackground(this.#follow(chunk, piece));
    return chunk;
  }

  /** Call when a piece is read to its end: it is put into the cache once it is compressed, if all of it fits. */
  end(piece: ReadPiece, key: string): void {
    piece.key = key;
    this.#keep(piece);
  }

  /**
   * Resolves when the client has taken all that is not in the cache, so that the number of slots bounds the memory of slow lists.
   * What is in the cache is decompressed again when it is sent.
   */
  async restIsTaken(): Promise<void> {
    await this.#until(() => this.#own.size === 0);
  }

  /** Frees the memory of a chunk as soon as it is not needed. */
  async #follow(chunk: ReadChunk, piece: ReadPiece): Promise<void> {
    const wasCandidate = piece.chunks !== undefined;
    this.#compressing++;
    // Handled where it is awaited.
    chunk.compressed = await chunk.compressing?.catch(() => undefined);
    this.#compressing--;
    if (this.options.isCompressed || (chunk.compressed !== undefined && !chunk.isTaken)) {
      this.#freePlain(chunk);
    }
    this.#keep(piece);
    this.#onFreed();
    await chunk.sent;
    this.#freePlain(chunk);
    if (piece.chunks === undefined) {
      this.#giveBack([chunk]);
    }
    if (!wasCandidate && chunk.compressed !== undefined) {
      freeBuffer(chunk.compressed.deflated);
    }
    this.#own.delete(chunk);
    this.#onFreed();
  }

  #freePlain(chunk: ReadChunk): void {
    if (chunk.bytes !== undefined) {
      this.recycle(chunk.bytes);
      chunk.bytes = undefined;
    }
  }

  /**
   * Lists that have read the same piece share the memory of the first one, so that what waits for their clients counts as memory of the
   * cache, or as their own. Plain bytes that are being sent take as much as those of a chunk from the cache.
   */
  #keep(piece: ReadPiece): void {
    const { key, chunks } = piece;
    const compressed = chunks?.flatMap((chunk) => chunk.compressed ?? []) ?? [];
    if (key === undefined || compressed.length !== chunks?.length) {
      return;
    }
    piece.chunks = undefined;
    this.#giveBack(chunks);
    const kept = this.options.cache.add(key, compressed, this.options.user);
    chunks.forEach((chunk, index) => {
      const shared = kept?.chunks[index];
      if (shared !== undefined) {
        chunk.replaceBy(shared);
        this.#own.delete(chunk);
      }
    });
  }

  /** Gives memory back to the cache: of chunks that it keeps itself from now on, that are sent, or that will not be. */
  #giveBack(chunks: Iterable<ReadChunk>): void {
    for (const chunk of chunks) {
      this.options.cache.giveBack(chunk.reserved);
      chunk.reserved = 0;
      this.#reserved.delete(chunk);
    }
  }

  async #until(isEnough: () => boolean): Promise<void> {
    while (!this.#isClosed && !isEnough()) {
      const freed = new Promise<void>((resolve) => (this.#onFreed = resolve));
      await (this.#compressing > 0 ? freed : this.#waitForClient(freed));
    }
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
