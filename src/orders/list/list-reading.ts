import { asError } from '../../common/as-error.js';
import { withDeadline } from '../../common/deadline.js';
import type { Slot } from '../../common/fair-slots.js';
import { Signal } from '../../common/signal.js';
import { ChunkEncoder } from './chunk-encoder.js';
import { ListChunk } from './list-chunk.js';
import type { ListTransaction } from './list-transaction.js';
import type { Piece } from './list-version.js';
import type { CachedPiece, PieceCache, PieceUser } from './piece-cache.js';

/** Pieces that one COPY message asks for. */
const COPIED_PIECES_MAX = 64;
/** How long to wait for a piece that another list is reading. Milliseconds, as are all durations here. */
const SHARED_TIMEOUT_MS = 1_000;
/** How long a list may wait for its client in all while it holds a transaction: behind an ALTER TABLE that waits, cancels wait, too. */
const CLIENT_PACED_MAX_MS = 60_000;
/** From then on a list gives up its slot when a key with fewer slots waits, also when it need not wait for its client. */
const UNDISTURBED_MS = 2_000;
/** A piece of more chunks than this is divided for later lists. */
const PIECE_CHUNKS_MAX = 4;

export interface ReadingOptions {
  readonly transaction: ListTransaction;
  readonly slot: Slot;
  readonly cache: PieceCache;
  /** The list; it can be cut because another one needs its slot, or because its client is too slow. */
  readonly user: PieceUser;
  /** Whether the chunks will be sent compressed. */
  readonly isCompressed: boolean;
  /** Called with the number of pieces that are read, with that of the orders in each chunk, and with a large piece. */
  onMissing(pieces: number): void;
  onRead(rows: number): void;
  onLargePiece(piece: Piece): void;
}

/**
 * Reads a list from one snapshot, piece after piece. Pieces in memory come from there. The others are read at the pace of the
 * database as long as they fit the cache, so that a slow client holds no connection, and at the pace of the client otherwise.
 */
export class ListReading {
  readonly #encoder: ChunkEncoder;
  readonly #queue: ListChunk[] = [];
  readonly #queued = new Signal();
  /** Pieces that are being read, which other lists may wait for. */
  readonly #announced = new Set<string>();
  #clientPacedMs = 0;
  #end: { readonly error?: Error } | undefined;

  constructor(private readonly options: ReadingOptions) {
    const { cache, isCompressed } = options;
    const waitForClient = (change: Promise<void>): Promise<void> => this.#waitForClient(change);
    this.#encoder = new ChunkEncoder({ cache, isCompressed, waitForClient });
  }

  /** Reads everything. Never rejects. */
  async run(): Promise<void> {
    const { transaction, slot, user } = this.options;
    const timer = setTimeout(() => {
      slot.yieldBy(user.cut);
    }, UNDISTURBED_MS);
    try {
      await this.#readAll();
      this.#end = {};
    } catch (error) {
      this.#end = { error: asError(error) };
      this.#stopSharing();
    }
    clearTimeout(timer);
    this.#queued.notify();
    this.#encoder.close();
    await transaction.end(this.#end.error === undefined);
    slot.release();
  }

  /** Resolves when there is a chunk, or no more of them. @throws {Error} when reading has failed */
  async ready(): Promise<void> {
    while (this.#queue.length === 0 && this.#end === undefined) {
      await this.#queued.wait();
    }
    if (this.#queue.length === 0 && this.#end?.error !== undefined) {
      throw this.#end.error;
    }
  }

  async *chunks(): AsyncGenerator<ListChunk> {
    for (;;) {
      await this.ready();
      const chunk = this.#queue.shift();
      if (chunk === undefined) {
        return;
      }
      yield chunk;
    }
  }

  /** Call when no more chunks will be taken. */
  close(): void {
    this.#encoder.close();
  }

  async #readAll(): Promise<void> {
    const { cache, transaction, user } = this.options;
    if (transaction.version === undefined) {
      await this.#copy(transaction.copyAll(), [undefined]);
      return;
    }
    const { pieces } = transaction.version;
    cache.show(pieces);
    let index = 0;
    for (let piece = pieces[index]; piece !== undefined; piece = pieces[index]) {
      const cached = cache.get(piece.key);
      if (cached !== undefined) {
        this.#put(cachedChunks(cached, user));
        index++;
      } else if (!(await this.#isReadByAnother(piece.key))) {
        const missing = this.#missingFrom(pieces, index);
        this.options.onMissing(missing.length);
        await this.#copy(transaction.copyPieces(missing), missing);
        index += missing.length;
      }
    }
  }

  /** Waits for a piece that another list is reading. @returns whether there is a point in looking it up again */
  async #isReadByAnother(key: string): Promise<boolean> {
    const reading = this.options.cache.whileRead(key);
    return (
      reading !== undefined &&
      withDeadline(reading, SHARED_TIMEOUT_MS).then(
        () => true,
        () => false,
      )
    );
  }

  /** The pieces from one on that neither memory has nor another list is reading. */
  #missingFrom(pieces: readonly Piece[], first: number): readonly Piece[] {
    const { cache } = this.options;
    const others = pieces.slice(first + 1, first + COPIED_PIECES_MAX);
    const found = others.findIndex(({ key }) => cache.get(key) !== undefined || cache.whileRead(key) !== undefined);
    return pieces.slice(first, first + 1 + (found === -1 ? others.length : found));
  }

  /** @param pieces what the statements of the copy read, in order; undefined for the whole table */
  async #copy(copy: AsyncGenerator<Buffer>, pieces: readonly (Piece | undefined)[]): Promise<void> {
    for (const { key } of pieces.filter((piece) => piece !== undefined)) {
      this.#announced.add(key);
      this.options.cache.startReading(key);
    }
    for (const piece of pieces) {
      await this.#readPiece(copy, piece);
    }
    await copy.next();
  }

  async #readPiece(copy: AsyncGenerator<Buffer>, piece: Piece | undefined): Promise<void> {
    const chunks: ListChunk[] = [];
    const put = (chunk: ListChunk, rows: number): void => {
      this.options.onRead(rows);
      chunks.push(chunk);
      this.#put([chunk]);
    };
    let isWhole = false;
    try {
      for (let next = await copy.next(); next.done !== true && next.value.length > 0; next = await copy.next()) {
        await this.#encoder.write(next.value, piece !== undefined, put);
      }
      this.#encoder.end(piece !== undefined, put);
      isWhole = true;
    } finally {
      if (piece !== undefined) {
        this.#keep(piece, chunks, isWhole);
      }
    }
    if (piece !== undefined && chunks.length > PIECE_CHUNKS_MAX) {
      this.options.onLargePiece(piece);
    }
  }

  #put(chunks: readonly ListChunk[]): void {
    this.#queue.push(...chunks);
    this.#queued.notify();
  }

  /** Puts a piece into the cache once it is compressed, if all of it fits. */
  #keep({ key }: Piece, chunks: readonly ListChunk[], isWhole: boolean): void {
    const { cache, user } = this.options;
    Promise.all(chunks.map(async ({ compressing }) => compressing))
      .then((compressed) => {
        const kept = compressed.flatMap((each) => (each?.isKept === true ? [each.chunk] : []));
        if (isWhole && kept.length === chunks.length) {
          use(cache.add(key, kept), chunks, user);
        } else {
          cache.cancel(kept);
        }
      })
      // Sending the chunk fails with the same error.
      .catch(() => undefined)
      .finally(() => {
        this.#announced.delete(key);
        cache.endReading(key);
      });
  }

  async #waitForClient(change: Promise<void>): Promise<void> {
    const { user, slot } = this.options;
    this.#stopSharing();
    slot.yieldBy(user.cut);
    const startedAt = performance.now();
    const timer = setTimeout(user.cut, CLIENT_PACED_MAX_MS - this.#clientPacedMs);
    await change;
    clearTimeout(timer);
    this.#clientPacedMs += performance.now() - startedAt;
  }

  /** Other lists need not wait for what is read from now on at the pace of a client. */
  #stopSharing(): void {
    for (const key of this.#announced) {
      this.options.cache.endReading(key);
    }
    this.#announced.clear();
  }
}

/** The chunks of a piece in memory, which is used until they have been sent. */
export function cachedChunks(piece: CachedPiece, user: PieceUser): ListChunk[] {
  const chunks = piece.chunks.map((chunk) => new ListChunk(undefined, Promise.resolve({ chunk, isKept: true })));
  use(piece, chunks, user);
  return chunks;
}

function use(piece: CachedPiece, chunks: readonly ListChunk[], user: PieceUser): void {
  const unsent = new Set(chunks.filter((chunk) => !chunk.isSent));
  if (unsent.size > 0) {
    user.pieces.add(piece);
  }
  for (const chunk of unsent) {
    chunk.onSent = () => {
      unsent.delete(chunk);
      if (unsent.size === 0) {
        user.pieces.delete(piece);
      }
    };
  }
}
