import { type CachedPiece, PieceCache, type PieceUser } from '../../../../src/orders/list/piece-cache.js';

const KEYS = Array.from({ length: 4_096 }, (_, index) => String(index));
const shown = (keys: readonly string[]): { key: string; first: string; last: string }[] =>
  keys.map((key) => ({ key, first: '0', last: '0' }));

it('looks only at outdated pieces of the lists that use some', () => {
  const cache = new PieceCache(64 * 1_048_576);
  cache.show(shown(KEYS));
  const pieces = KEYS.map((key) => cache.add(key, []));
  let looked = 0;
  /** Counts how many of its pieces are visited. */
  class CountingSet extends Set<CachedPiece> {
    override *[Symbol.iterator](): SetIterator<CachedPiece> {
      for (const piece of super[Symbol.iterator]()) {
        looked++;
        yield piece;
      }
    }
  }
  const users = Array.from({ length: 10 }, (): PieceUser => ({ pieces: new CountingSet(pieces), cut: jest.fn() }));
  for (const user of users) {
    cache.startUsing(user);
  }
  looked = 0;
  cache.show(shown([...KEYS.slice(1), 'new']));
  expect(looked).toBe(0);
});

it('cuts the oldest lists while outdated pieces take more memory than current ones may', () => {
  const chunk = { deflated: Buffer.allocUnsafeSlow(90_000), crc: 0, length: 1 };
  const cache = new PieceCache(100_000);
  const cuts: string[] = [];
  for (const version of ['first', 'second', 'third', 'fourth']) {
    cache.show(shown([version]));
    expect(cache.reserve(chunk)).toBe(true);
    const pieces = new Set([cache.add(version, [chunk])]);
    cache.startUsing({ pieces, cut: () => cuts.push(version) });
    // Uses nothing that is outdated.
    cache.startUsing({ pieces: new Set(), cut: () => cuts.push('none') });
  }
  expect(cuts).toEqual(['first', 'second']);
});

it('drops a piece that was added after another version had been shown', () => {
  const cache = new PieceCache(100_000);
  const chunk = { deflated: Buffer.allocUnsafeSlow(90_000), crc: 0, length: 1 };
  const current = shown(['new']);
  cache.show(shown(['old']));
  expect(cache.reserve(chunk)).toBe(true);
  cache.show(current);
  cache.add('old', [chunk]);
  cache.show(current);
  expect(cache.get('old')).toBeUndefined();
  expect(cache.hasRoomFor(90_000)).toBe(true);
});

it('lets those who wait for a piece go on when another list reads it, too', async () => {
  const cache = new PieceCache(100_000);
  cache.startReading('piece');
  const first = cache.whileRead('piece');
  cache.startReading('piece');
  await first;
  const second = cache.whileRead('piece');
  expect(second).not.toBe(first);
  cache.endReading('piece');
  await second;
  expect(cache.whileRead('piece')).toBeUndefined();
});
