import type { DeflatedChunk } from './gzip.js';
import type { ListVersion } from './list-version.js';

/** Approximate memory of a chunk in addition to its bytes: objects and the entry of the map. */
const OVERHEAD_BYTES = 500;

type NamedPieces = Pick<ListVersion, 'name' | 'pieces'>;

/** No list has this version. */
const NO_PIECES: NamedPieces = { name: '', pieces: [] };

/** A piece in memory: its orders in chunks, compressed. */
export interface CachedPiece {
  readonly chunks: readonly DeflatedChunk[];
  readonly bytes: number;
  /** Lists that are being sent and hold it. */
  users: number;
  /** Lists that begin now no longer get it. */
  isOutdated: boolean;
}

/** A list that is being sent. It holds its pieces until it ends, also when they are outdated. */
export interface PieceUser {
  /** Who shares the memory of outdated pieces fairly with others. */
  readonly caller: string;
  /** What it has read, or all pieces of a version: lists share that array, so nothing is added to it. */
  pieces: CachedPiece[];
  /** Ends the list. */
  cut: () => void;
}

interface OutdatedList {
  readonly user: PieceUser;
  /** Of the outdated pieces that it and younger lists of its caller hold. A piece that several of them share counts once. */
  readonly bytes: number;
}

/**
 * Keeps pieces of the list compressed, up to a number of bytes. A list is a sequential scan, so evicting the least recently used
 * piece would evict each one just before it is needed once the list outgrows the cache. Pieces stay until a version without them is
 * listed; what does not fit is not kept. Outdated pieces that lists still hold take at most as much memory again.
 */
export class PieceCache {
  readonly #pieces = new Map<string, CachedPiece>();
  /** The oldest first. */
  readonly #users = new Set<PieceUser>();
  /** Of the pieces and reservations. */
  #bytes = 0;
  /** Of the outdated pieces that lists hold. */
  #outdatedBytes = 0;
  /** The version that was read last. */
  #version: NamedPieces = NO_PIECES;
  /** The keys of its pieces. */
  #keys = new Set<string>();
  /** All of its pieces, once they have been asked for and are there. */
  #whole: CachedPiece[] | undefined;

  /** @param bytesMax 0: nothing is kept */
  constructor(private readonly bytesMax: number) {}

  get(key: string): CachedPiece | undefined {
    return this.#pieces.get(key);
  }

  /**
   * All pieces of a version, in one array for all of its lists: there may be thousands of both. Undefined when one is missing, and for
   * another version than the one that was read last.
   */
  whole(name: string | undefined): CachedPiece[] | undefined {
    if (name !== this.#version.name) {
      return undefined;
    }
    if (this.#whole === undefined) {
      const found = this.#version.pieces.map(({ key }) => this.#pieces.get(key));
      this.#whole = found.every((piece) => piece !== undefined) ? found : undefined;
    }
    return this.#whole;
  }

  /** Drops the pieces that a version does not have. Call before pieces of it are added. */
  show(version: NamedPieces): void {
    this.#version = version;
    this.#whole = undefined;
    this.#keys = new Set(version.pieces.map(({ key }) => key));
    for (const [key, piece] of this.#pieces) {
      this.#dropOutdated(key, piece);
    }
    this.#boundOutdated();
  }

  /** Drops everything, after a piece was found to be corrupt. */
  clear(): void {
    this.show(NO_PIECES);
  }

  /** Whether a chunk of this size would be kept. */
  hasRoomFor(bytes: number): boolean {
    return this.#bytes + bytes + OVERHEAD_BYTES <= this.bytesMax;
  }

  /** Reserves memory for a chunk of a piece that is being read. @returns the bytes, to be given back; 0 when it does not fit */
  reserve(bytes: number): number {
    const reserved = this.hasRoomFor(bytes) ? bytes + OVERHEAD_BYTES : 0;
    this.#bytes += reserved;
    return reserved;
  }

  giveBack(reserved: number): void {
    this.#bytes -= reserved;
  }

  /**
   * Keeps a piece if it fits; the list that has read it holds it.
   * @returns the piece in the cache, perhaps the one that another list has read
   */
  add(key: string, chunks: readonly DeflatedChunk[], user: PieceUser): CachedPiece | undefined {
    let piece = this.#pieces.get(key);
    if (piece === undefined) {
      const bytes = chunks.reduce((sum, { deflated }) => sum + deflated.buffer.byteLength + OVERHEAD_BYTES, 0);
      if (this.#bytes + bytes > this.bytesMax) {
        return undefined;
      }
      piece = { chunks, bytes, users: 0, isOutdated: false };
      this.#pieces.set(key, piece);
      this.#bytes += bytes;
    }
    this.hold(user, piece);
    // Another version may have been read while this piece was.
    this.#dropOutdated(key, piece);
    this.#boundOutdated();
    return piece;
  }

  /**
   * @param cut ends the list
   * @param whole from {@link whole}, for a list that holds nothing else
   */
  startUsing(caller: string, cut: () => void, whole: CachedPiece[] = []): PieceUser {
    const user = { caller, pieces: whole, cut };
    this.#users.add(user);
    for (const piece of whole) {
      piece.users++;
    }
    return user;
  }

  hold(user: PieceUser, piece: CachedPiece): void {
    if (this.#users.has(user)) {
      piece.users++;
      user.pieces.push(piece);
    }
  }

  endUsing(user: PieceUser): void {
    this.#users.delete(user);
    // V8 keeps deleted entries of a set until a full collection: this one must not keep the response alive.
    user.cut = () => undefined;
    for (const piece of user.pieces) {
      piece.users--;
      this.#outdatedBytes -= piece.isOutdated && piece.users === 0 ? piece.bytes : 0;
    }
    user.pieces = [];
  }

  #dropOutdated(key: string, piece: CachedPiece): void {
    if (!this.#keys.has(key)) {
      this.#pieces.delete(key);
      this.#bytes -= piece.bytes;
      piece.isOutdated = true;
      this.#outdatedBytes += piece.users > 0 ? piece.bytes : 0;
    }
  }

  /** Cuts lists while outdated pieces take more memory than the current ones may: the oldest of the caller that holds most of them. */
  #boundOutdated(): void {
    const shares = this.#outdatedBytes > this.bytesMax ? this.#sharesOfOutdated() : [];
    while (this.#outdatedBytes > this.bytesMax) {
      const [largest] = shares.sort((one, other) => (other.at(-1)?.bytes ?? 0) - (one.at(-1)?.bytes ?? 0));
      const user = largest?.pop()?.user;
      if (user === undefined) {
        return;
      }
      const { cut } = user;
      this.endUsing(user);
      cut();
    }
  }

  /** By caller, its lists that hold outdated pieces. */
  #sharesOfOutdated(): OutdatedList[][] {
    const shares = new Map<string, { readonly seen: Set<unknown>; readonly lists: OutdatedList[] }>();
    for (const user of [...this.#users].reverse()) {
      const { caller, pieces } = user;
      const { seen, lists } = shares.get(caller) ?? { seen: new Set(), lists: [] };
      // Thousands of lists may share one array of thousands of pieces.
      const isSeen = seen.has(pieces);
      const outdated = isSeen ? [] : pieces.filter(({ isOutdated }) => isOutdated);
      if (isSeen || outdated.length > 0) {
        const unseen = outdated.filter((piece) => !seen.has(piece));
        const bytes = unseen.reduce((sum, piece) => sum + piece.bytes, lists.at(-1)?.bytes ?? 0);
        [pieces, ...unseen].forEach((item) => seen.add(item));
        lists.push({ user, bytes });
        shares.set(caller, { seen, lists });
      }
    }
    return Array.from(shares.values(), ({ lists }) => lists);
  }
}
