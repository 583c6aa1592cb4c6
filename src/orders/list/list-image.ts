import { type Deflated, type GzipArray, gzipArrayOf } from './gzip.js';

/** A small piece and its neighbour become one when they have at most this many times as many orders as a piece has at least. */
const JOINED_MAX = 2;

/** A part of a piece, of which several images may have a share. */
export interface ImageChunk extends Deflated {
  /** Images that have it, and builds that have read or taken it. */
  holders: number;
}

/** The orders of some consecutive blocks: from its own first block to the one before that of the next piece. */
export interface Piece {
  readonly block: number;
  /** The number of its orders. */
  readonly rows: number;
  readonly chunks: readonly ImageChunk[];
}

/** The whole list in one version, compressed. Immutable. */
export interface ListImage extends GzipArray {
  /** See {@link ListVersion.name}; undefined when the list has no version. */
  readonly name: string | undefined;
  /** The first extends from the lowest id, the last to the highest. None when there are no orders. */
  readonly pieces: readonly Piece[];
  readonly chunks: readonly ImageChunk[];
}

export function imageOf(name: string | undefined, pieces: readonly Piece[]): ListImage {
  const chunks = pieces.flatMap((piece) => piece.chunks);
  return { name, pieces, chunks, ...gzipArrayOf(chunks) };
}

/** The block that each piece but the first begins with. */
export function startsOf(pieces: readonly Piece[]): number[] {
  return pieces.slice(1).map(({ block }) => block);
}

/**
 * Joins pieces that have few orders with one beside them: otherwise small ones would become more and more.
 * @param rowsMin what a piece has at least where that is possible
 */
export function joinSmall(pieces: readonly Piece[], rowsMin: number): Piece[] {
  const joined: Piece[] = [];
  for (const piece of pieces) {
    const last = joined.at(-1);
    const isSmall = last !== undefined && Math.min(last.rows, piece.rows) < rowsMin;
    if (isSmall && last.rows + piece.rows <= JOINED_MAX * rowsMin) {
      joined.pop();
      joined.push({ block: last.block, rows: last.rows + piece.rows, chunks: [...last.chunks, ...piece.chunks] });
    } else {
      joined.push(piece);
    }
  }
  return joined;
}
