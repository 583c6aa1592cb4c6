import type { DeflatedChunk } from './gzip-member.js';
import type { ListVersion } from './list-version.js';

/** Approximate memory of a chunk in addition to its bytes: objects and the entry of the map. */
const OVERHEAD_BYTES = 500;

/** A piece in memory: its orders in chunks, compressed. */
export interface CachedPiece {
  readonly key: string;
  readonly chunks: readonly DeflatedChunk[];
  readonly bytes: number;
}

/** A list that has yet to send pieces, which stay in memory when they are outdated. */
export interface PieceUser {
  readonly pieces: Set<CachedPiece>;
  /** Ends the list. */
  cut: () => void;
}

/**
 * Keeps pieces of the list compressed, up to a number of bytes. A list is a sequential scan, so evicting the least recently used
 * piece would evict each one just before it is needed once the list outgrows the cache. Pieces stay until a version without them is
 * listed; what does not fit is not kept.
 */
export class PieceCache {
  readonly #pieces = new Map<string, CachedPiece>();
  readonly #reading = new Map<string, { readonly ended: Promise<void>; readonly end: () => void }>();
  /** The oldest first. */
  readonly #users = new Set<PieceUser>();
  /** Dropped pieces that lists have yet to send. */
  readonly #outdated = new Set<CachedPiece>();
  /** Of the pieces and reservations. */
  #bytes = 0;
  #shown: ListVersion['pieces'] | undefined;
  /** The keys of what is shown. */
  #current = new Set<string>();

  /** @param bytesMax 0: nothing is kept */
  constructor(private readonly bytesMax: number) {}

  get(key: string): CachedPiece | undefined {
    return this.#pieces.get(key);
  }

  /** Drops the pieces that a version does not have. Call before pieces of it are added. */
  show(pieces: ListVersion['pieces']): void {
    if (pieces === this.#shown) {
      return;
    }
    this.#shown = pieces;
    this.#current = new Set(pieces.map(({ key }) => key));
    for (const [key, piece] of this.#pieces) {
      if (!this.#current.has(key)) {
        this.#pieces.delete(key);
        this.#bytes -= piece.bytes;
        this.#outdated.add(piece);
      }
    }
    this.#dropUnused();
    this.#boundOutdated();
  }

  /** Drops everything, after a piece was found to be corrupt. */
  clear(): void {
    this.show([]);
  }

  /** Whether a chunk of this size would be kept. */
  hasRoomFor(bytes: number): boolean {
    return this.#bytes + bytes + OVERHEAD_BYTES <= this.bytesMax;
  }

  /** Reserves memory for a chunk. @returns false when it does not fit */
  reserve({ deflated }: DeflatedChunk): boolean {
    const hasRoom = this.hasRoomFor(deflated.buffer.byteLength);
    this.#bytes += hasRoom ? costOf(deflated) : 0;
    return hasRoom;
  }

  /** Gives up reservations. */
  cancel(chunks: readonly DeflatedChunk[]): void {
    this.#bytes -= sumOf(chunks);
  }

  /** Keeps a piece whose chunks are reserved. */
  add(key: string, chunks: readonly DeflatedChunk[]): CachedPiece {
    const previous = this.#pieces.get(key);
    if (previous !== undefined) {
      // Two lists have read it.
      this.cancel(chunks);
      return previous;
    }
    const piece = { key, chunks, bytes: sumOf(chunks) };
    this.#pieces.set(key, piece);
    if (!this.#current.has(key)) {
      // Another version was shown while this piece was read: the next call of `show` drops it.
      this.#shown = undefined;
    }
    return piece;
  }

  /** Resolves when a list has read this piece or given it up; undefined when none is reading it. */
  whileRead(key: string): Promise<void> | undefined {
    return this.#reading.get(key)?.ended;
  }

  /** Announces that a list reads this piece at the pace of the database. Lists that wait for an earlier reader look the piece up again. */
  startReading(key: string): void {
    this.endReading(key);
    let end = (): void => undefined;
    const ended = new Promise<void>((resolve) => (end = resolve));
    this.#reading.set(key, { ended, end });
  }

  endReading(key: string): void {
    this.#reading.get(key)?.end();
    this.#reading.delete(key);
  }

  startUsing(user: PieceUser): void {
    this.#users.add(user);
  }

  endUsing(user: PieceUser): void {
    this.#users.delete(user);
    // V8 keeps deleted entries of a set until a full collection: this one must not keep the response alive.
    user.cut = () => undefined;
    user.pieces.clear();
    this.#dropUnused();
  }

  /** While outdated pieces take more memory than the current ones may, cuts the list that has been using some for the longest time. */
  #boundOutdated(): void {
    for (const user of this.#users) {
      const outdatedBytes = Array.from(this.#outdated).reduce((sum, { bytes }) => sum + bytes, 0);
      if (outdatedBytes <= this.bytesMax) {
        return;
      }
      if ([...this.#outdated].some((piece) => user.pieces.has(piece))) {
        const { cut } = user;
        this.endUsing(user);
        cut();
      }
    }
  }

  /** Drops outdated pieces that no list uses any more. */
  #dropUnused(): void {
    for (const piece of this.#outdated) {
      if (!this.#isUsed(piece)) {
        this.#outdated.delete(piece);
      }
    }
  }

  #isUsed(piece: CachedPiece): boolean {
    for (const { pieces } of this.#users) {
      if (pieces.has(piece)) {
        return true;
      }
    }
    return false;
  }
}

function sumOf(chunks: readonly DeflatedChunk[]): number {
  return chunks.reduce((sum, { deflated }) => sum + costOf(deflated), 0);
}

function costOf(deflated: Buffer): number {
  return deflated.buffer.byteLength + OVERHEAD_BYTES;
}
