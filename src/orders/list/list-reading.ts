import { once } from 'node:events';
import { Readable } from 'node:stream';
import { asError } from '../../common/as-error.js';
import { HEADER_BYTES } from '../../database/copy-out.js';
import type { Metrics } from '../../metrics/metrics.js';
import { chunksOf, type ListChunk } from './list-chunk.js';
import type { ListCompaction } from './list-compaction.js';
import { type ReadPiece, UnsentChunks, type UnsentOptions } from './unsent-chunks.js';
import type { ListTransaction } from './list-transaction.js';
import type { ListVersion, Piece } from './list-version.js';
import { ClientDisconnected } from './list-writer.js';
import { type EncodedChunk, OrderListEncoder } from './order-list-encoder.js';
import type { CachedPiece } from './piece-cache.js';

/** Pieces that one COPY message asks for. */
const COPIED_PIECES_MAX = 64;
/**
 * After this time a list gives up its slot when a key with fewer slots waits, even if the list has not waited for its client.
 * Milliseconds.
 */
const UNDISTURBED_MS = 2_000;
/** A piece of more chunks than this for each block of a group is divided for later lists. */
const CHUNKS_PER_BLOCK_MAX = 4;

export interface ReadingOptions extends UnsentOptions {
  readonly compaction: Pick<ListCompaction, 'noteBlocks'>;
  readonly metrics: Pick<Metrics, 'listPieces' | 'listRows'>;
}

/**
 * Reads a list from one snapshot, piece after piece. Pieces in memory come from there. The others are read at the pace of the
 * database as long as they fit the cache, so that a slow client holds no connection, and at the pace of the client otherwise.
 */
export class ListReading {
  readonly #encoder = new OrderListEncoder(HEADER_BYTES);
  /** What the client has not taken. */
  readonly #read = new Readable({ objectMode: true, read: () => undefined });
  readonly #unsent: UnsentChunks;
  #chunksPerPieceMax = CHUNKS_PER_BLOCK_MAX;
  /** The name of the version that the transaction shows, once there is a chunk; undefined when the list has none. */
  version: string | undefined;

  constructor(private readonly options: ReadingOptions) {
    this.#unsent = new UnsentChunks(options, (plain) => {
      this.#encoder.recycle(plain);
    });
    // Handled where it is read.
    this.#read.on('error', () => undefined);
  }

  /** Reads everything. Never rejects. */
  async run(begin: () => Promise<ListTransaction>): Promise<void> {
    const { slot, onFilled } = this.options;
    try {
      // Kept no longer than that: the names of its pieces may take a megabyte.
      await this.#readAll(await begin());
    } catch (error) {
      this.close(asError(error));
    }
    this.#encoder.close();
    await this.#unsent.restIsTaken();
    // The last piece may have been compressed only now.
    onFilled();
    slot.release();
  }

  /** Resolves when there is a chunk, or no more of them. @throws {Error} when reading has failed @throws {ClientDisconnected} */
  async ready(): Promise<void> {
    await once(this.#read, 'readable');
  }

  async *chunks(): AsyncGenerator<ListChunk> {
    for await (const next of this.#read as AsyncIterable<CachedPiece | ListChunk>) {
      yield* 'chunks' in next ? chunksOf([next]) : [next];
    }
  }

  /** Call when no more chunks will be taken: reading fails from now on. */
  close(error: Error = new ClientDisconnected()): void {
    this.#unsent.close();
    this.#read.destroy(error);
  }

  async #readAll(transaction: ListTransaction): Promise<void> {
    const { slot, user } = this.options;
    const timer = setTimeout(() => {
      slot.yieldBy(user.cut);
    }, UNDISTURBED_MS);
    this.version = transaction.version?.name;
    let isComplete = false;
    try {
      await (transaction.version === undefined
        ? this.#copy(transaction.copyAll(), [undefined])
        : this.#readPieces(transaction, transaction.version));
      this.#read.push(null);
      isComplete = true;
    } finally {
      clearTimeout(timer);
      await transaction.end(isComplete);
    }
  }

  async #readPieces(transaction: ListTransaction, version: ListVersion): Promise<void> {
    const { cache, user, metrics } = this.options;
    const { pieces, blocksPerGroup } = version;
    this.#chunksPerPieceMax = CHUNKS_PER_BLOCK_MAX * blocksPerGroup;
    cache.show(version);
    const missing: Piece[] = [];
    for (const [index, piece] of pieces.entries()) {
      const cached = cache.get(piece.key);
      if (cached === undefined) {
        missing.push(piece);
      } else {
        cache.hold(user, cached);
        metrics.listPieces.labels('memory').inc();
      }
      const isEnough = cached !== undefined || missing.length === COPIED_PIECES_MAX || index === pieces.length - 1;
      if (isEnough && missing.length > 0) {
        metrics.listPieces.labels('database').inc(missing.length);
        await this.#copy(transaction.copyPieces(missing), missing.splice(0));
      }
      if (cached !== undefined) {
        this.#read.push(cached);
      }
    }
  }

  /** @param pieces what the statements of the copy read, in order; undefined for the whole table */
  async #copy(copy: AsyncGenerator<Buffer>, pieces: readonly (Piece | undefined)[]): Promise<void> {
    for (const piece of pieces) {
      await this.#readPiece(copy, piece);
    }
    await copy.next();
  }

  async #readPiece(copy: AsyncGenerator<Buffer>, piece: Piece | undefined): Promise<void> {
    const read: ReadPiece = { chunks: piece === undefined ? undefined : [] };
    let count = 0;
    for await (const { bytes, rows } of this.#encode(copy)) {
      this.options.metrics.listRows.inc(rows);
      this.#read.push(this.#unsent.add(bytes, read));
      count++;
    }
    if (piece !== undefined) {
      this.#unsent.end(read, piece.key);
      if (count > this.#chunksPerPieceMax) {
        this.options.compaction.noteBlocks(piece);
      }
    }
  }

  /** The chunks of the next statement of a copy, each as soon as there is memory for it. */
  async *#encode(copy: AsyncGenerator<Buffer>): AsyncGenerator<EncodedChunk> {
    const encoder = this.#encoder;
    for (let next = await copy.next(); next.done !== true && next.value.length > 0; next = await copy.next()) {
      for (let from = 0; from < next.value.length;) {
        if (!encoder.hasChunk) {
          await this.#unsent.room();
        }
        from = encoder.write(next.value, from);
        if (encoder.isFull) {
          yield encoder.endChunk();
        }
      }
    }
    if (encoder.hasChunk) {
      yield encoder.endChunk();
    }
  }
}
