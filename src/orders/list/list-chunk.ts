import { freeBuffer } from '../../common/free-buffer.js';
import { type DeflatedChunk, inflate } from './gzip.js';

/** A part of the list's JSON array: up to 16,384 orders, without the comma before them. */
export interface ListChunk {
  /** @throws {CorruptChunk} (by rejection) */
  plain(): Promise<Buffer>;
  deflated(): Promise<DeflatedChunk>;
  /** Call when the chunk has been sent or given up: its bytes are no longer used. */
  release(): void;
}

/** A chunk in memory, compressed. */
export class CachedChunk implements ListChunk {
  #inflated: Buffer | undefined;

  constructor(protected chunk: DeflatedChunk | Promise<DeflatedChunk>) {}

  async plain(): Promise<Buffer> {
    return (this.#inflated = await inflate(await this.chunk));
  }

  async deflated(): Promise<DeflatedChunk> {
    return this.chunk;
  }

  release(): void {
    if (this.#inflated !== undefined) {
      freeBuffer(this.#inflated);
    }
  }
}

/** The chunks of pieces in memory, one after the other: those of many slow lists would take more memory than their pieces. */
export function* chunksOf(pieces: Iterable<{ readonly chunks: readonly DeflatedChunk[] }>): Generator<ListChunk> {
  for (const { chunks } of pieces) {
    for (const chunk of chunks) {
      yield new CachedChunk(chunk);
    }
  }
}

const NOT_COMPRESSED = Promise.reject<DeflatedChunk>(new TypeError('The chunk is not compressed.'));
// Handled where it is awaited.
NOT_COMPRESSED.catch(() => undefined);

/** A chunk that has just been read, plain. It is compressed when its client or the cache needs that. {@link UnsentChunks} follows it. */
export class ReadChunk extends CachedChunk {
  compressed: DeflatedChunk | undefined;
  /** Memory of the cache that its compressed bytes take until it is kept or sent. */
  reserved = 0;
  /** Whether its client has asked for the plain bytes. */
  isTaken = false;
  isSent = false;
  /** Resolves when its client has it. */
  readonly sent: Promise<void>;
  #endSending: () => void = () => undefined;

  /** @param bytes undefined when they are no longer read */
  constructor(
    public bytes: Buffer | undefined,
    readonly compressing: Promise<DeflatedChunk> | undefined,
  ) {
    super(compressing ?? NOT_COMPRESSED);
    this.sent = new Promise((resolve) => (this.#endSending = resolve));
  }

  /** Memory that is not the cache's. */
  get ownBytes(): number {
    return this.bytes?.length ?? (this.reserved > 0 ? 0 : (this.compressed?.deflated.length ?? 0));
  }

  override async plain(): Promise<Buffer> {
    this.isTaken = true;
    return this.bytes ?? super.plain();
  }

  override release(): void {
    super.release();
    this.isSent = true;
    this.#endSending();
  }

  /** @param chunk the same in the cache, perhaps from another list */
  replaceBy(chunk: DeflatedChunk): void {
    this.chunk = chunk;
    this.compressed = undefined;
  }
}
