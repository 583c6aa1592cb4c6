import { gunzipSync } from 'node:zlib';
import { deflate } from '../../../../src/orders/list/deflate.js';
import { blockParts } from '../../../../src/orders/list/list-parts.js';
import type { ResponseBody } from '../../../../src/orders/list/response-body.js';
import { writeList } from '../../../../src/orders/list/write-list.js';

/** Records what is written before the end and with it. */
class RecordedBody {
  readonly written: Buffer[] = [];
  ended: Buffer | undefined;

  write(pieces: readonly Buffer[]): Promise<void> {
    this.written.push(Buffer.concat(pieces));
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
});
