import { freeBuffer } from '../../common/free-buffer.js';
import { Signal } from '../../common/signal.js';
import { deflate, expectedSize } from './deflate.js';
import { type Compressed, ListChunk } from './list-chunk.js';
import { CHUNK_BYTES_MAX, OrderListEncoder } from './order-list-encoder.js';
import type { PieceCache } from './piece-cache.js';

/** Memory for chunks that are not in the cache: one is encoded while two or three others are compressed or sent. */
const OWN_BYTES_MAX = 4 * 1_048_576;
/** A smaller chunk is moved out of the buffer that it was encoded in. */
const BUFFERED_MIN_BYTES = 64 * 1_024;

export interface ChunkEncoderOptions {
  readonly cache: PieceCache;
  /** Whether the chunks will be sent compressed. */
  readonly isCompressed: boolean;
  /** Called when there is no memory until the client has taken a chunk. @param change resolves when it may have */
  waitForClient(change: Promise<void>): Promise<void>;
}

/** Encodes the rows of a list as chunks, in a bounded amount of memory in addition to that of the cache. */
export class ChunkEncoder {
  readonly #encoder = new OrderListEncoder();
  /** The buffer of the chunk that is being encoded. */
  #buffer: Buffer | undefined;
  readonly #spare: Buffer[] = [];
  /** Chunks that are not only in the cache. */
  readonly #own = new Set<ListChunk>();
  readonly #changed = new Signal();
  #isClosed = false;

  constructor(private readonly options: ChunkEncoderOptions) {}

  /**
   * Encodes rows, which may begin and end anywhere in a row.
   * @param mayKeep whether the cache may keep the chunks
   * @param onChunk called with each chunk that is full, and the number of its orders
   * @throws {UnencodableOrder}
   */
  async write(rows: Buffer, mayKeep: boolean, onChunk: (chunk: ListChunk, rows: number) => void): Promise<void> {
    for (let from = 0; from < rows.length;) {
      if (this.#buffer === undefined) {
        this.#buffer = await this.#nextBuffer();
        this.#encoder.start(this.#buffer);
      }
      from = this.#encoder.write(rows, from);
      if (this.#encoder.isFull) {
        this.end(mayKeep, onChunk);
      }
    }
  }

  /** Ends the chunk. The parameters are as for {@link write}. */
  end(mayKeep: boolean, onChunk: (chunk: ListChunk, rows: number) => void): void {
    if (this.#buffer !== undefined) {
      const buffer = this.#buffer;
      this.#buffer = undefined;
      onChunk(this.#toChunk(buffer, mayKeep), this.#encoder.rows);
    }
  }

  /** Call when no more chunks will be taken: encoding fails from now on. */
  close(): void {
    this.#isClosed = true;
    this.#spare.splice(0).forEach(freeBuffer);
    this.#changed.notify();
  }

  #toChunk(buffer: Buffer, mayKeep: boolean): ListChunk {
    const { cache, isCompressed } = this.options;
    const isSmall = this.#encoder.bytes.length < BUFFERED_MIN_BYTES;
    const plain = isSmall ? Buffer.from(this.#encoder.bytes) : this.#encoder.bytes;
    if (isSmall) {
      this.#recycle(buffer);
    }
    const isCompressing = isCompressed || (mayKeep && cache.hasRoomFor(expectedSize(plain)));
    const chunk = new ListChunk(plain, isCompressing ? this.#compress(plain, mayKeep) : undefined, () => {
      if (!isSmall) {
        this.#recycle(buffer);
      }
    });
    chunk.onChange = () => {
      if (isCompressed && !chunk.isCompressing) {
        chunk.reclaim();
      }
      if (chunk.ownBytes === 0) {
        this.#own.delete(chunk);
      }
      this.#changed.notify();
    };
    this.#own.add(chunk);
    return chunk;
  }

  async #compress(plain: Buffer, mayKeep: boolean): Promise<Compressed> {
    const chunk = await deflate(plain);
    return { chunk, isKept: mayKeep && this.options.cache.reserve(chunk) };
  }

  /** A buffer for the next chunk, as soon as there may be one more. */
  async #nextBuffer(): Promise<Buffer> {
    while (!this.#isClosed && this.#ownBytes() > OWN_BYTES_MAX) {
      const own = [...this.#own];
      const reclaimable = own.findLast((chunk) => chunk.isReclaimable);
      if (reclaimable !== undefined) {
        reclaimable.reclaim();
        this.#own.delete(reclaimable);
      } else if (own.some((chunk) => chunk.isCompressing)) {
        await this.#changed.wait();
      } else {
        await this.options.waitForClient(this.#changed.wait());
      }
    }
    if (this.#isClosed) {
      throw new Error('The list has been closed.');
    }
    return this.#spare.pop() ?? Buffer.allocUnsafeSlow(CHUNK_BYTES_MAX);
  }

  #recycle(buffer: Buffer): void {
    if (this.#isClosed) {
      freeBuffer(buffer);
    } else {
      this.#spare.push(buffer);
    }
  }

  #ownBytes(): number {
    let bytes = 0;
    for (const chunk of this.#own) {
      bytes += chunk.ownBytes;
    }
    return bytes;
  }
}
