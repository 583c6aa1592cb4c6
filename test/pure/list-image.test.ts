import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { deflate, gzipArrayOf } from '../../src/orders/list/gzip.js';
import { imageOf, outdatedOf, type Piece } from '../../src/orders/list/list-image.js';

it('compressed chunks of any length are joined by commas to one gzip member', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 500 })), async (pieces) => {
      const { gzip, length } = gzipArrayOf(await Promise.all(pieces.map((bytes) => deflate(Buffer.from(bytes)))));
      const plain = pieces.flatMap((bytes, index) => [...(index === 0 ? [] : [0x2c]), ...bytes]);
      const expected = Buffer.from([0x5b, ...plain, 0x5d]);
      expect(gunzipSync(Buffer.concat(gzip))).toEqual(expected);
      expect(length).toBe(expected.length);
    }),
  );
});

it('when a chunk is compressed, it takes no spare memory', async () => {
  const { deflated } = await deflate(Buffer.alloc(1_000_000));
  // Small ones are a part of the pool of Node.
  expect(deflated.buffer.byteLength).toBeLessThanOrEqual(deflated.length + Buffer.poolSize);
});

it.each<[rows: number[], changed: string, outdated: string]>([
  [[], '', ''],
  [[9, 9, 9], '-x-', '-x-'],
  // Small pieces beside changes are read with them, so that they do not become more and more.
  [[3, 9, 3], '-x-', 'xxx'],
  [[3, 3, 9, 3], 'x---', 'xx--'],
])(
  'when pieces of %j orders have changed as in %p, and 4 orders are not small, they are read again as in %p',
  (rows, changed, outdated) => {
    const pieces = rows.map((count, block): Piece => ({ block, rows: count, chunks: [] }));
    const image = imageOf({ name: 'name', basis: 'basis' }, pieces, rows.map(String));
    const sums = rows.map((count, index) => (changed[index] === 'x' ? 'other' : String(count)));
    const found = outdatedOf(image, sums, 4);
    expect(found.map((isOutdated) => (isOutdated ? 'x' : '-')).join('')).toBe(outdated);
  },
);
