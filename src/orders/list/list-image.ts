import { deflate, type Deflated, type GzipArray, gzipArrayOf, inflateSync } from './gzip.js';
import type { ListVersion } from './list-version.js';
import type { EncodedChunk } from './order-encoder.js';

/** Chunks that are compressed at once, while the next one is read. */
const COMPRESSING_MAX = 2;
/** A list up to this size is also kept as it is sent, in one buffer: most stores are so small. Bytes of JSON. */
const SHORT_BYTES = 262_144;

/** The orders of some consecutive blocks: from its own first block to the one before that of the next piece. */
export interface Piece {
  readonly block: number;
  /** The number of its orders. */
  readonly rows: number;
  readonly chunks: readonly Deflated[];
}

/** The whole list in one version, compressed. Immutable. */
export interface ListImage extends ListVersion, GzipArray {
  /** The first extends from the lowest id, the last to the highest. None when there are no orders. */
  readonly pieces: readonly Piece[];
  readonly chunks: readonly Deflated[];
  /** The sum of the tokens of each piece. */
  readonly sums: readonly string[];
  /** The bodies of a short list. */
  readonly short: { readonly gzip: Buffer; readonly plain: Buffer } | undefined;
}

export function imageOf(version: ListVersion, pieces: readonly Piece[], sums: readonly string[]): ListImage {
  const chunks = pieces.flatMap((piece) => piece.chunks);
  const array = gzipArrayOf(chunks);
  const short =
    array.length > SHORT_BYTES
      ? undefined
      : { gzip: Buffer.concat(array.gzip), plain: Buffer.from(`[${chunks.map(inflateSync).join()}]`) };
  return { ...version, pieces, chunks, sums, short, ...array };
}

/** The block that each piece but the first begins with. */
export function startsOf(pieces: readonly Piece[]): number[] {
  return pieces.slice(1).map(({ block }) => block);
}

/**
 * Which pieces of an image are read again: those that have changed, and small ones beside them, which would become more and more otherwise.
 * @param sums of the tokens of each piece now
 * @param rowsMin what a piece has that is not small
 */
export function outdatedOf(image: ListImage, sums: readonly string[], rowsMin: number): boolean[] {
  const isChanged = sums.map((sum, index) => sum !== image.sums[index]);
  const isBesideChange = (index: number): boolean => (isChanged[index - 1] ?? false) || (isChanged[index + 1] ?? false);
  return image.pieces.map(({ rows }, index) => isChanged[index] === true || (rows < rowsMin && isBesideChange(index)));
}

/** Consecutive blocks: from the first one, or from the lowest id, to the one before `to`, or to the highest id. */
export interface BlockRange {
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** What the next image is made of, in the order of the list: pieces that are taken over, and the blocks between them, which are read. */
export function partsOf(pieces: readonly Piece[], isOutdated: readonly boolean[]): (Piece | BlockRange)[] {
  if (pieces.length === 0) {
    return [{}];
  }
  return pieces.flatMap((piece, index): (Piece | BlockRange)[] => {
    if (isOutdated[index] === false) {
      return [piece];
    }
    if (isOutdated[index - 1] === true) {
      // The blocks of consecutive ones are read together.
      return [];
    }
    const next = isOutdated.indexOf(false, index);
    return [{ from: index === 0 ? undefined : piece.block, to: pieces[next]?.block }];
  });
}

/** Bytes of the chunks of some images or pieces; those that they share count once. */
export function bytesOf(all: readonly Pick<Piece, 'chunks'>[]): number {
  const chunks = new Set(all.flatMap((each) => each.chunks));
  return Array.from(chunks).reduce((sum, { deflated }) => sum + deflated.length, 0);
}

interface BuiltPiece extends Piece {
  rows: number;
  readonly chunks: Deflated[];
}

/** Collects the pieces of an image: those of the image before, and new ones, which it compresses as they are read. */
export class ImageBuilder {
  readonly #pieces: BuiltPiece[] = [];
  /** What is being compressed; the oldest first. */
  readonly #compressing: { readonly piece: BuiltPiece; readonly deflated: Promise<Deflated> }[] = [];
  #bytes = 0;

  /** What has been taken and compressed. */
  get pieces(): readonly Piece[] {
    return this.#pieces;
  }

  /** Of the pieces. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Adds a piece of the image before. */
  take(piece: Piece): void {
    this.#pieces.push({ ...piece, chunks: [...piece.chunks] });
    this.#bytes += bytesOf([piece]);
  }

  /** Adds a chunk, of a new piece if it has a block. Resolves when there is room for the next one. */
  async add({ bytes, rows, block }: EncodedChunk): Promise<void> {
    const last = block === undefined ? this.#pieces.at(-1) : undefined;
    const piece = last ?? { block: block ?? 0, rows: 0, chunks: [] };
    if (piece !== last) {
      this.#pieces.push(piece);
    }
    piece.rows += rows;
    const deflated = deflate(bytes);
    // Its error is thrown where it is awaited.
    deflated.catch(() => undefined);
    this.#compressing.push({ piece, deflated });
    if (this.#compressing.length > COMPRESSING_MAX) {
      await this.#finishOldest();
    }
  }

  /** @returns all pieces, once they are compressed */
  async end(): Promise<readonly Piece[]> {
    while (this.#compressing.length > 0) {
      await this.#finishOldest();
    }
    return this.#pieces;
  }

  async #finishOldest(): Promise<void> {
    const oldest = this.#compressing.shift();
    if (oldest !== undefined) {
      const deflated = await oldest.deflated;
      oldest.piece.chunks.push(deflated);
      this.#bytes += deflated.deflated.length;
    }
  }
}
