import { deflate } from './gzip.js';
import { type ImageMemory, sizeOf } from './image-memory.js';
import type { ImageChunk, Piece } from './list-image.js';
import type { EncodedChunk } from './order-list-encoder.js';

/** Chunks that are compressed at once, while the next one is read. */
const COMPRESSING_MAX = 2;

interface BuiltPiece extends Piece {
  rows: number;
  readonly chunks: ImageChunk[];
}

/** Collects the pieces of an image: those of the image before, and new ones, which it compresses as they are read. */
export class ImageBuilder {
  readonly #pieces: BuiltPiece[] = [];
  readonly #held: ImageChunk[] = [];
  #bytes = 0;
  /** Those that are being compressed; the oldest first. Their errors are thrown where they are awaited. */
  readonly #compressing: Promise<void>[] = [];

  /**
   * @param bytesMax of the image
   * @param mayCut whether older images make room for it
   */
  constructor(
    private readonly memory: ImageMemory,
    private readonly bytesMax: number,
    private readonly mayCut: boolean,
  ) {}

  /** Whether memory holds what has been collected. */
  get fits(): boolean {
    return this.#bytes <= this.bytesMax && !this.memory.isFull;
  }

  /** Adds a piece of the image before. */
  take({ block, rows, chunks }: Piece): void {
    this.#pieces.push({ block, rows, chunks: [...chunks] });
    chunks.forEach((chunk) => {
      this.#hold(chunk);
    });
  }

  /** Adds a chunk, of a new piece if it has a block. @param onCompressed called when its bytes are not needed any more */
  async add({ bytes, rows, block }: EncodedChunk, onCompressed: () => void): Promise<void> {
    const last = block === undefined ? this.#pieces.at(-1) : undefined;
    const piece = last ?? { block: block ?? 0, rows: 0, chunks: [] };
    if (last === undefined) {
      this.#pieces.push(piece);
    }
    piece.rows += rows;
    const previous = this.#compressing.at(-1);
    const compressing = deflate(bytes).then(async (deflated) => {
      onCompressed();
      // In the order of the list.
      await previous;
      const chunk = { ...deflated, holders: 0 };
      piece.chunks.push(chunk);
      this.#hold(chunk);
    });
    compressing.catch(() => undefined);
    this.#compressing.push(compressing);
    if (this.#compressing.length > COMPRESSING_MAX) {
      await this.#compressing.shift();
    }
  }

  /** @returns all pieces, once they are compressed */
  async pieces(): Promise<readonly Piece[]> {
    await Promise.all(this.#compressing);
    return this.#pieces;
  }

  /** Call once: an image that has been made of the pieces holds them from now on. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#compressing);
    this.memory.free(this.#held.splice(0));
  }

  #hold(chunk: ImageChunk): void {
    this.#held.push(chunk);
    this.#bytes += sizeOf(chunk);
    this.memory.hold(chunk);
    if (this.mayCut && this.#bytes <= this.bytesMax) {
      this.memory.makeRoom();
    }
  }
}
