import { randomBytes } from 'node:crypto';
import { deflate } from '../../../../src/orders/list/deflate.js';
import type { DeflatedChunk } from '../../../../src/orders/list/gzip-member.js';
import { ListChunk } from '../../../../src/orders/list/list-chunk.js';
import type { ResponseBody } from '../../../../src/orders/list/response-body.js';
import { writeList } from '../../../../src/orders/list/write-list.js';

/** Records what is written before the end and with it. */
class RecordedBody {
  readonly written: Buffer[] = [];
  ended: Buffer | undefined;

  /** The last piece of each write, as it is now. */
  readonly lastPieces: Buffer[] = [];

  write(pieces: readonly Buffer[]): Promise<void> {
    this.written.push(Buffer.concat(pieces));
    this.lastPieces.push(...pieces.slice(-1));
    return Promise.resolve();
  }

  end(pieces: readonly Buffer[]): Promise<void> {
    this.ended = Buffer.concat(pieces);
    return Promise.resolve();
  }
}

const chunkOf = (chunk: DeflatedChunk): ListChunk => new ListChunk(undefined, Promise.resolve({ chunk, isKept: true }));

async function written(chunks: readonly string[], compressed: boolean): Promise<RecordedBody> {
  const body = new RecordedBody();
  const deflated = await Promise.all(chunks.map((chunk) => deflate(Buffer.from(chunk))));
  await writeList(deflated.map(chunkOf), body as unknown as ResponseBody, compressed);
  return body;
}

describe('writeList', () => {
  it('writes a short list of several chunks together with the end of the body', async () => {
    const body = await written(['{"id":1}', '{"id":2}'], false);
    expect(body.written).toEqual([]);
    expect(body.ended?.toString()).toBe('[{"id":1},{"id":2}]');
  });

  it('frees what it decompresses once that is written, and leaves the chunks of other lists as they are', async () => {
    const plain = `"${randomBytes(300_000).toString('base64')}"`;
    const chunks = [await deflate(Buffer.from(plain)), await deflate(Buffer.from(plain))];
    const before = chunks.map(({ deflated }) => Buffer.from(deflated));
    const isFreed = 'transfer' in ArrayBuffer.prototype;
    for (const compressed of [false, true]) {
      const body = new RecordedBody();
      await writeList(chunks.map(chunkOf), body as unknown as ResponseBody, compressed);
      const lengths = compressed ? before.map(({ length }) => length) : chunks.map(() => (isFreed ? 0 : plain.length));
      expect(body.lastPieces.map(({ length }) => length)).toEqual(lengths);
      expect(chunks.map(({ deflated }) => deflated)).toEqual(before);
    }
  });

  it('releases every chunk when a write fails', async () => {
    const chunks = await Promise.all([1, 2, 3].map(async () => chunkOf(await deflate(randomBytes(100_000)))));
    const failing = { write: () => Promise.reject(new Error('gone')), end: () => Promise.reject(new Error('gone')) };
    await expect(writeList(chunks, failing as unknown as ResponseBody, true)).rejects.toThrow('gone');
    expect(chunks[0]?.isSent).toBe(true);
  });
});
