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

  constructor(private readonly chunk: DeflatedChunk) {}

  async plain(): Promise<Buffer> {
    return (this.#inflated = await inflate(this.chunk));
  }

  deflated(): Promise<DeflatedChunk> {
    return Promise.resolve(this.chunk);
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

/** A chunk after it has been compressed. */
export interface Compressed {
  readonly chunk: DeflatedChunk;
  /** Whether its memory is the cache's. */
  readonly isKept: boolean;
}

/**
 * A chunk that has just been read. It begins plain and is compressed when its client or the cache needs that; it ends in the cache, sent,
 * or both.
 */
export class ReadChunk implements ListChunk {
  #plain: Buffer | undefined;
  #compressed: Compressed | undefined;
  #isCompressing: boolean;
  /** Whether the client has asked for the plain bytes. */
  #isTaken = false;
  #isReleased = false;

  /**
   * @param compressing undefined when the chunk is needed only as it is
   * @param sendsPlain whether the client does not get it compressed
   * @param onFreed called when the chunk may need less memory
   * @param recycle called with the plain bytes when nobody will read them any more
   */
  constructor(
    plain: Buffer,
    readonly compressing: Promise<Compressed> | undefined,
    private readonly sendsPlain: boolean,
    private readonly onFreed: () => void,
    private readonly recycle: (plain: Buffer) => void,
  ) {
    this.#plain = plain;
    this.#isCompressing = compressing !== undefined;
    compressing
      ?.then((compressed) => (this.#compressed = compressed))
      // Whoever sends or keeps the chunk gets the error.
      .catch(() => undefined)
      .finally(() => {
        this.#isCompressing = false;
        this.#free();
      });
  }

  get isReleased(): boolean {
    return this.#isReleased;
  }

  /** What the cache has of it: the same, compressed. */
  get kept(): DeflatedChunk | undefined {
    return this.#compressed?.isKept === true ? this.#compressed.chunk : undefined;
  }

  get isCompressing(): boolean {
    return this.#isCompressing;
  }

  /** Memory that is not the cache's. */
  get ownBytes(): number {
    const { chunk, isKept = true } = this.#compressed ?? {};
    return this.#plain?.length ?? (isKept || this.#isReleased ? 0 : (chunk?.deflated.length ?? 0));
  }

  async plain(): Promise<Buffer> {
    this.#isTaken = true;
    return (this.#plain ??= await inflate(await this.deflated()));
  }

  async deflated(): Promise<DeflatedChunk> {
    await this.compressing;
    if (this.#compressed === undefined) {
      throw new TypeError('The chunk is not compressed.');
    }
    return this.#compressed.chunk;
  }

  /** @param chunk the same in the cache, perhaps from another list: takes its place */
  replaceBy(chunk: DeflatedChunk): void {
    this.#compressed = { chunk, isKept: true };
  }

  release(): void {
    this.#isReleased = true;
    if (this.#compressed?.isKept === false) {
      freeBuffer(this.#compressed.chunk.deflated);
    }
    this.#free();
  }

  /** Gives up the plain bytes, unless they are being compressed, or the client needs them and the cache does not have them. */
  #free(): void {
    const isNeeded = this.sendsPlain && !this.#isReleased && (this.#isTaken || this.kept === undefined);
    if (this.#plain !== undefined && !this.#isCompressing && !isNeeded) {
      this.recycle(this.#plain);
      this.#plain = undefined;
    }
    this.onFreed();
  }
}
