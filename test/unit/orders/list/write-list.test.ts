import { gunzipSync } from 'node:zlib';
import { deflate } from '../../../../src/orders/list/deflate.js';
import { blockParts } from '../../../../src/orders/list/list-parts.js';
import type { ResponseBody } from '../../../../src/orders/list/response-body.js';
import { writeList } from '../../../../src/orders/list/write-list.js';

/** Records what is written before the end and with it. */
class RecordedBody {
  readonly written: Buffer[] = [];
  ended: Buffer | undefined;

  /** The last piece of each write, as it is now. */
  readonly lastPieces: Buffer[] = [];

  write(pieces: readonly Buffer[], onWritten?: () => void): Promise<void> {
    this.written.push(Buffer.concat(pieces));
    this.lastPieces.push(...pieces.slice(-1));
    onWritten?.();
    return Promise.resolve();
  }

  end(pieces: readonly Buffer[] = []): Promise<void> {
    this.ended = Buffer.concat(pieces);
    return Promise.resolve();
  }
}

async function written(blocks: readonly string[], compressed: boolean): Promise<RecordedBody> {
  const body = new RecordedBody();
  const deflated = await Promise.all(blocks.map((block) => deflate(Buffer.from(block))));
  await writeList(blockParts(deflated), body as unknown as ResponseBody, compressed);
  return body;
}

describe('writeList', () => {
  it('writes a list of one block together with the end of the body', async () => {
    const body = await written(['{"id":1}'], false);
    expect(body.written).toEqual([]);
    expect(body.ended?.toString()).toBe('[{"id":1}]');
  });

  it.each([
    ['no block', [], '[]'],
    ['two blocks', ['{"id":1}', '{"id":2}'], '[{"id":1},{"id":2}]'],
    ['an empty last block', ['{"id":1}', ''], '[{"id":1}]'],
    ['a block too large to be decompressed at once', [`"${'x'.repeat(300_000)}"`], `["${'x'.repeat(300_000)}"]`],
  ])('writes %s in order, plain and compressed', async (_name, blocks, expected) => {
    for (const compressed of [false, true]) {
      const { written: before, ended = Buffer.alloc(0) } = await written(blocks, compressed);
      const bytes = Buffer.concat([...before, ended]);
      expect((compressed ? gunzipSync(bytes) : bytes).toString()).toBe(expected);
    }
  });

  it('frees what it decompresses once that is written, and leaves the blocks of other lists as they are', async () => {
    const plain = `"${'x'.repeat(300_000)}"`;
    const blocks = [await deflate(Buffer.from(plain)), await deflate(Buffer.from(plain))];
    const before = blocks.map(({ deflated }) => Buffer.from(deflated));
    const isFreed = 'transfer' in ArrayBuffer.prototype;
    for (const compressed of [false, true]) {
      const body = new RecordedBody();
      await writeList(blockParts(blocks), body as unknown as ResponseBody, compressed);
      expect(body.lastPieces.map(({ length }) => length)).toEqual([
        compressed ? before[0]?.length : isFreed ? 0 : plain.length,
      ]);
      expect(blocks.map(({ deflated }) => deflated)).toEqual(before);
    }
  });
});
