import { deflate, type Deflated } from '../../src/orders/list/gzip.js';
import { bytesOf, imageOf, type ListImage, outdatedOf, type Piece } from '../../src/orders/list/list-image.js';

const VERSION = { name: 'name', basis: 'basis' };

/** An image whose pieces have so many orders, and none of them a token. */
function imageWith(rows: readonly number[]): ListImage {
  const pieces = rows.map((count, block): Piece => ({ block, rows: count, chunks: [] }));
  return imageOf(VERSION, pieces, rows.map(String));
}

it.each<[rows: number[], changed: string, outdated: string]>([
  [[], '', ''],
  [[9], '-', '-'],
  [[9], 'x', 'x'],
  [[9, 9, 9], '-x-', '-x-'],
  // Small pieces beside changes are read with them, so that they do not become more and more.
  [[3, 9, 3], '-x-', 'xxx'],
  [[3, 4, 3], '-x-', 'xxx'],
  [[3, 3, 9, 3], 'x---', 'xx--'],
  [[9, 3, 3, 9], 'x--x', 'xxxx'],
  [[3, 3, 3], '---', '---'],
])('pieces of %j orders, changed as in %p, are read again as in %p when 4 are not small', (rows, changed, outdated) => {
  const sums = rows.map((count, index) => (changed[index] === 'x' ? 'other' : String(count)));
  const found = outdatedOf(imageWith(rows), sums, 4);
  expect(found.map((isOutdated) => (isOutdated ? 'x' : '-')).join('')).toBe(outdated);
});

it('bytesOf counts chunks that images share once', async () => {
  const [one, other, third] = (await Promise.all(['1', '2', '3'].map((text) => deflate(Buffer.from(text))))) as [
    Deflated,
    Deflated,
    Deflated,
  ];
  const [before, after] = [{ chunks: [one, other] }, { chunks: [one, third] }];
  expect(bytesOf([before, after])).toBe(one.deflated.length + other.deflated.length + third.deflated.length);
});
