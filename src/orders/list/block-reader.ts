import { freeBuffer } from '../../common/free-buffer.js';
import { Semaphore } from '../../common/semaphore.js';
import type { BlockCache } from './block-cache.js';
import { deflate } from './deflate.js';
import type { DeflatedBlock } from './gzip-member.js';
import type { ListTransaction } from './list-transaction.js';
import { BLOCK_ROWS, type BlockVersion, idRange } from './list-version.js';
import { OrderListEncoder, ROW_BYTES_MAX } from './order-list-encoder.js';

/** Uncompressed blocks in memory per list: one is read while others are compressed. */
const PLAIN_BLOCKS_MAX = 3;

/** Reads blocks in one transaction, one after the other, compresses them and puts them into the cache. */
export class BlockReader {
  static #readers = 0;
  readonly #readAt = ++BlockReader.#readers;
  readonly #buffers = new Semaphore(PLAIN_BLOCKS_MAX);
  readonly #spare: Buffer[] = [];
  #last: Promise<unknown> = Promise.resolve();
  /** Blocks that have not been compressed. */
  #remaining = 0;

  /** @param count called with the number of rows of each block */
  constructor(
    private readonly transaction: ListTransaction,
    private readonly cache: BlockCache,
    private readonly count: (rows: number) => void,
  ) {}

  /** Reads a block after those before it; fails when one of them cannot be read. Other lists share the read. */
  read(wanted: BlockVersion): Promise<DeflatedBlock> {
    this.#remaining++;
    const reading = this.#last.then(() => this.#readJson(wanted.id));
    this.#last = reading;
    const block = reading.then((json) => this.#compress(json, wanted));
    this.cache.share(wanted, block);
    return block;
  }

  /** Resolves when the connection is free, to whether all blocks could be read. Never rejects. */
  finished(): Promise<boolean> {
    return this.#last.then(
      () => true,
      () => false,
    );
  }

  async #readJson(id: bigint): Promise<Buffer> {
    await this.#buffers.acquire();
    const buffer = this.#spare.pop() ?? Buffer.allocUnsafeSlow(BLOCK_ROWS * ROW_BYTES_MAX);
    let json = buffer.subarray(0, 0);
    const encoder = new OrderListEncoder(
      (bytes) => (json = bytes),
      () => buffer,
    );
    for await (const chunk of this.transaction.copy(...idRange(id, id))) {
      encoder.write(chunk);
    }
    encoder.end();
    this.count(encoder.rows);
    return json;
  }

  async #compress(json: Buffer, wanted: BlockVersion): Promise<DeflatedBlock> {
    try {
      const block = await deflate(json);
      this.cache.set(wanted, block, this.#readAt);
      return block;
    } finally {
      this.#spare.push(Buffer.from(json.buffer));
      this.#buffers.release();
      if (--this.#remaining === 0) {
        this.#spare.forEach(freeBuffer);
      }
    }
  }
}
