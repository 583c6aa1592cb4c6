import { deflate, type Deflated, freeBuffer } from './gzip.js';
import type { ImageChunk, ListImage, Piece } from './list-image.js';
import type { EncodedChunk } from './order-list-encoder.js';

/** Chunks that are compressed at once, while the next one is read. */
const COMPRESSING_MAX = 2;
/** Approximate memory of a chunk in addition to its bytes. */
const OVERHEAD_BYTES = 500;

/** Ends a response. */
export type Cut = () => void;

/** A response that is sending an image. */
interface User {
  cut: Cut;
}

/** Counts the memory of all images: the current one, those that are being sent, and the one that is being built. A shared chunk counts once. */
export class ImageMemory {
  #bytes = 0;
  /** The responses of each image that is current or being sent; the oldest image first. */
  readonly #users = new Map<ListImage, Set<User>>();
  #current: ListImage | undefined;

  /** @param bytesMax of all images together */
  constructor(private readonly bytesMax: number) {}

  get isFull(): boolean {
    return this.#bytes > this.bytesMax;
  }

  /** The image that lists get. */
  get current(): ListImage | undefined {
    return this.#current;
  }

  set current(image: ListImage | undefined) {
    const old = this.#current;
    this.#current = image;
    if (image !== undefined) {
      this.#add(image);
    }
    if (old !== undefined) {
      this.#dropUnused(old);
    }
  }

  /** @returns to be called, perhaps more than once, when the response has ended */
  use(image: ListImage, cut: Cut): () => void {
    const users = this.#add(image);
    const user = { cut };
    users.add(user);
    return () => {
      users.delete(user);
      // V8 keeps deleted entries of a set until a full collection: this one must not keep the response alive.
      user.cut = () => undefined;
      this.#dropUnused(image);
    };
  }

  /** Counts a chunk that a build has read or taken. */
  hold(chunk: ImageChunk): void {
    this.#bytes += chunk.holders === 0 ? sizeOf(chunk) : 0;
    chunk.holders++;
  }

  free(chunks: readonly ImageChunk[]): void {
    for (const chunk of chunks) {
      chunk.holders--;
      this.#bytes -= chunk.holders === 0 ? sizeOf(chunk) : 0;
    }
  }

  /** Cuts the responses of the oldest images, but not of the current one, until there is room. */
  makeRoom(): void {
    for (const [image, users] of this.#users) {
      if (!this.isFull) {
        return;
      }
      if (image !== this.#current) {
        const cut = [...users];
        users.clear();
        this.#dropUnused(image);
        cut.forEach((user) => {
          user.cut();
        });
      }
    }
  }

  #add(image: ListImage): Set<User> {
    let users = this.#users.get(image);
    if (users === undefined) {
      users = new Set();
      this.#users.set(image, users);
      image.chunks.forEach((chunk) => {
        this.hold(chunk);
      });
    }
    return users;
  }

  #dropUnused(image: ListImage): void {
    if (image !== this.#current && this.#users.get(image)?.size === 0) {
      this.#users.delete(image);
      this.free(image.chunks);
    }
  }
}

interface BuiltPiece extends Piece {
  rows: number;
  readonly chunks: ImageChunk[];
}

/** Collects the pieces of an image: those of the image before, and new ones, which it compresses as they are read. */
export class ImageBuilder {
  readonly #pieces: BuiltPiece[] = [];
  #bytes = 0;
  /** What is being compressed; the oldest first. */
  readonly #compressing: { readonly piece: BuiltPiece; readonly deflated: Promise<Deflated> }[] = [];

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
    const piece = this.#begin(block, rows);
    for (const chunk of chunks) {
      this.#hold(chunk, piece);
    }
  }

  /** Adds a chunk, of a new piece if it has a block. Its bytes are freed once they are compressed. */
  async add({ bytes, rows, block }: EncodedChunk): Promise<void> {
    const last = block === undefined ? this.#pieces.at(-1) : undefined;
    const piece = last ?? this.#begin(block ?? 0);
    piece.rows += rows;
    const deflated = deflate(bytes).finally(() => {
      freeBuffer(bytes);
    });
    // Its error is thrown where it is awaited.
    deflated.catch(() => undefined);
    this.#compressing.push({ piece, deflated });
    if (this.#compressing.length > COMPRESSING_MAX) {
      await this.#finishOldest();
    }
  }

  /** @returns all pieces, once they are compressed */
  async pieces(): Promise<readonly Piece[]> {
    while (this.#compressing.length > 0) {
      await this.#finishOldest();
    }
    return this.#pieces;
  }

  /** Call once: an image that has been made of the pieces holds them from now on. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#compressing.map(({ deflated }) => deflated));
    this.memory.free(this.#pieces.flatMap(({ chunks }) => chunks));
  }

  #begin(block: number, rows = 0): BuiltPiece {
    const piece = { block, rows, chunks: [] };
    this.#pieces.push(piece);
    return piece;
  }

  async #finishOldest(): Promise<void> {
    const oldest = this.#compressing.shift();
    if (oldest !== undefined) {
      this.#hold({ ...(await oldest.deflated), holders: 0 }, oldest.piece);
    }
  }

  #hold(chunk: ImageChunk, { chunks }: BuiltPiece): void {
    chunks.push(chunk);
    this.#bytes += sizeOf(chunk);
    this.memory.hold(chunk);
    if (this.mayCut && this.#bytes <= this.bytesMax) {
      this.memory.makeRoom();
    }
  }
}

/** Of compressed bytes and objects. */
export function sizeOf({ deflated }: Pick<ImageChunk, 'deflated'>): number {
  return deflated.length + OVERHEAD_BYTES;
}
