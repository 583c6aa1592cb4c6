import { freeBuffer } from '../../common/free-buffer.js';
import { inflate } from './deflate.js';
import type { DeflatedChunk } from './gzip-member.js';

/** A chunk after it has been compressed. */
export interface Compressed {
  readonly chunk: DeflatedChunk;
  /** Whether the cache has memory for it. */
  readonly isKept: boolean;
}

/**
 * A part of the list's JSON array: up to 16,384 orders, without the comma before them. It is plain when it has just been read,
 * compressed when it is in the cache, and both while a list that is not compressed has yet to send what it has read.
 */
export class ListChunk {
  /** Called when the chunk has been sent, and when it needs less memory of its own. */
  onSent: () => void = () => undefined;
  onChange: () => void = () => undefined;
  #plain: Buffer | undefined;
  #compressed: Compressed | undefined;
  #inflated: Buffer | undefined;
  #isTaken = false;
  #isSent = false;

  /**
   * @param compressing undefined when the chunk is needed only as it is
   * @param recycle called once, when the plain bytes are no longer used
   */
  constructor(
    plain: Buffer | undefined,
    readonly compressing: Promise<Compressed> | undefined,
    private readonly recycle: (plain: Buffer) => void = () => undefined,
  ) {
    this.#plain = plain;
    compressing?.then(
      (compressed) => {
        this.#compressed = compressed;
        if (this.#isSent) {
          this.reclaim();
        }
        this.onChange();
      },
      // Whoever sends or keeps the chunk gets the error.
      () => undefined,
    );
  }

  get isSent(): boolean {
    return this.#isSent;
  }

  get isCompressing(): boolean {
    return this.compressing !== undefined && this.#compressed === undefined;
  }

  /** Whether the plain bytes can be given up, because the cache has the chunk. */
  get isReclaimable(): boolean {
    return this.#plain !== undefined && !this.#isTaken && this.#compressed?.isKept === true;
  }

  /** Memory that is not the cache's. */
  get ownBytes(): number {
    const isKept = this.#compressed?.isKept ?? true;
    return this.#plain?.length ?? (isKept || this.#isSent ? 0 : (this.#compressed?.chunk.deflated.length ?? 0));
  }

  /** @throws {CorruptChunk} (by rejection) */
  async plain(): Promise<Buffer> {
    this.#isTaken = true;
    return this.#plain ?? (this.#inflated = await inflate(await this.deflated()));
  }

  async deflated(): Promise<DeflatedChunk> {
    const compressed = await this.compressing;
    if (compressed === undefined) {
      throw new TypeError('The chunk is not compressed.');
    }
    return compressed.chunk;
  }

  /** Gives up the plain bytes; those that a client has asked for have been sent. */
  reclaim(): void {
    if (this.#plain !== undefined) {
      this.recycle(this.#plain);
      this.#plain = undefined;
    }
  }

  /** Call when the chunk has been sent, and its bytes are no longer used. */
  release(): void {
    this.#isSent = true;
    if (this.#inflated !== undefined) {
      freeBuffer(this.#inflated);
    }
    if (this.#compressed?.isKept === false) {
      freeBuffer(this.#compressed.chunk.deflated);
    }
    if (!this.isCompressing) {
      this.reclaim();
    }
    this.onSent();
    this.onChange();
  }
}
