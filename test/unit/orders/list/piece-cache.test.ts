import { type CachedPiece, PieceCache, type PieceUser } from '../../../../src/orders/list/piece-cache.js';
import type { ListVersion } from '../../../../src/orders/list/list-version.js';

const CHUNK = { deflated: Buffer.allocUnsafeSlow(90_000), crc: 0, length: 1 };

const shown = (...keys: readonly string[]): Pick<ListVersion, 'name' | 'pieces'> => ({
  name: keys.join(),
  pieces: keys.map((key) => ({ key, first: '0', last: '0' })),
});

/** Reads a piece of one chunk into the cache for a list. */
function read(cache: PieceCache, key: string, user: PieceUser): CachedPiece {
  const piece = cache.add(key, [CHUNK], user);
  expect(piece).toBeDefined();
  return piece!;
}

const anyList = (cache: PieceCache): PieceUser => cache.startUsing('a', () => undefined);

it('cuts the oldest lists while outdated pieces that lists hold take more memory than current ones may', () => {
  const cache = new PieceCache(100_000);
  const cuts: string[] = [];
  for (const version of ['first', 'second', 'third', 'fourth']) {
    cache.show(shown(version));
    const user = cache.startUsing('a', () => cuts.push(version));
    read(cache, version, user);
    // Holds nothing that is outdated.
    cache.startUsing('a', () => cuts.push('none'));
  }
  expect(cuts).toEqual(['first', 'second']);
});

it('cuts the oldest list of the caller with the most that hold outdated pieces', () => {
  const cache = new PieceCache(250_000);
  const cuts: string[] = [];
  let versions = 0;
  for (const caller of ['few', 'many', 'many', 'others']) {
    const version = `${caller} ${versions++}`;
    cache.show(shown(version));
    const user = cache.startUsing(caller, () => cuts.push(caller));
    read(cache, version, user);
  }
  expect(cuts).toEqual(['many']);
});

it('counts the bytes that a caller holds, not its lists', () => {
  const cache = new PieceCache(250_000);
  const cuts: string[] = [];
  cache.show(shown('one'));
  const start = (whole?: CachedPiece[]): PieceUser => cache.startUsing('lists', () => cuts.push('lists'), whole);
  const first = read(cache, 'one', start());
  cache.hold(start(), first);
  expect(cache.whole('one')).toEqual([first]);
  start(cache.whole('one'));
  start(cache.whole('one'));
  for (const version of ['two', 'three', 'four']) {
    cache.show(shown(version));
    const user = cache.startUsing('bytes', () => cuts.push(version));
    read(cache, version, user);
  }
  expect(cuts).toEqual(['two']);
});

it('cuts lists of several callers, each time of the one that holds the most then', () => {
  const cache = new PieceCache(400_000);
  const cuts: string[] = [];
  const list = (caller: string, ...keys: readonly string[]): void => {
    const user = cache.startUsing(caller, () => cuts.push(keys.join()));
    keys.forEach((key) => read(cache, key, user));
  };
  cache.show(shown('1', '2', '3', '4'));
  list('a', '1', '2');
  list('a', '3', '4');
  cache.show(shown('5', '6', '7', '8'));
  list('b', '5', '6');
  list('b', '7');
  list('c', '8');
  cache.show(shown('9'));
  expect(cuts).toEqual(['1,2', '5,6']);
});

it('looks through the lists once, however many it cuts', () => {
  const cache = new PieceCache(100_000);
  const [lists, pieces] = [500, jest.fn()];
  let cuts = 0;
  cache.show(shown('first'));
  const first = read(cache, 'first', anyList(cache));
  for (let list = 1; list < lists; list++) {
    const user = cache.startUsing('a', () => cuts++);
    cache.hold(user, first);
    Object.defineProperty(user, 'pieces', { get: () => (pieces(), [first]), set: () => undefined });
  }
  cache.show(shown('second'));
  read(cache, 'second', anyList(cache));
  cache.show(shown('third'));
  expect(cuts).toBe(lists - 1);
  expect(pieces.mock.calls.length).toBeLessThan(5 * lists);
});

it('names the pieces of a version in one array for all lists, as long as it has all of them', () => {
  const cache = new PieceCache(250_000);
  const version = shown('one', 'two');
  cache.show(version);
  read(cache, 'one', anyList(cache));
  expect(cache.whole(version.name)).toBeUndefined();
  read(cache, 'two', anyList(cache));
  const whole = cache.whole(version.name);
  expect(whole?.length).toBe(2);
  expect(cache.whole(version.name)).toBe(whole);
  cache.show(shown('two'));
  expect(cache.whole(version.name)).toBeUndefined();
});

it('does not count an outdated piece that no list holds any more', () => {
  const cache = new PieceCache(100_000);
  const cut = jest.fn();
  for (const version of ['first', 'second', 'third', 'fourth']) {
    cache.show(shown(version));
    const [one, other] = [cache.startUsing('a', cut), cache.startUsing('a', cut)];
    cache.hold(other, read(cache, version, one));
    cache.endUsing(one);
    // Held by the other one until then.
    cache.show(shown(version, 'more'));
    cache.endUsing(other);
    cache.endUsing(other);
  }
  cache.show(shown('last'));
  read(cache, 'last', cache.startUsing('a', cut));
  cache.show(shown('none'));
  expect(cut).not.toHaveBeenCalled();
});

it('cuts no list for a piece that it got after its end', () => {
  const cache = new PieceCache(100_000);
  const cut = jest.fn();
  const ended = cache.startUsing('a', cut);
  cache.endUsing(ended);
  for (const version of ['first', 'second', 'third', 'fourth']) {
    cache.show(shown(version));
    read(cache, version, ended);
  }
  expect(ended.pieces).toEqual([]);
  expect(cut).not.toHaveBeenCalled();
});

it('drops a piece that was added after another version had been shown', () => {
  const cache = new PieceCache(100_000);
  cache.show(shown('old'));
  cache.show(shown('new'));
  cache.add('old', [CHUNK], anyList(cache));
  expect(cache.get('old')).toBeUndefined();
  expect(cache.hasRoomFor(90_000)).toBe(true);
});

it('drops a piece that was divided, although the list is the same', () => {
  const cache = new PieceCache(100_000);
  cache.show(shown('whole'));
  read(cache, 'whole', anyList(cache));
  cache.show(shown('low', 'high'));
  expect(cache.get('whole')).toBeUndefined();
  expect(cache.hasRoomFor(90_000)).toBe(true);
});

it('keeps no piece that does not fit as a whole', () => {
  const cache = new PieceCache(150_000);
  cache.show(shown('one', 'two'));
  expect(cache.add('one', [CHUNK, CHUNK], anyList(cache))).toBeUndefined();
  read(cache, 'two', anyList(cache));
  expect([cache.get('one'), cache.hasRoomFor(90_000)]).toEqual([undefined, false]);
});

it('keeps one copy of a piece that two lists have read', () => {
  const cache = new PieceCache(200_000);
  cache.show(shown('piece'));
  const user = anyList(cache);
  const first = read(cache, 'piece', user);
  expect(read(cache, 'piece', user)).toBe(first);
  expect(cache.hasRoomFor(100_000)).toBe(true);
});
