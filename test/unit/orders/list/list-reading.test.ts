import { ListReading } from '../../../../src/orders/list/list-reading.js';
import type { ListTransaction } from '../../../../src/orders/list/list-transaction.js';
import { CHUNK_ROWS } from '../../../../src/orders/list/order-list-encoder.js';
import { PieceCache } from '../../../../src/orders/list/piece-cache.js';
import { waitFor } from '../../../helpers/wait-for.js';

const CACHE_BYTES = 1_000_000;

function rows(count: number): Buffer {
  return Buffer.from(Array.from({ length: count }, (_, id) => `${id}\t7\t1\t\\N\tf\n`).join(''));
}

interface Options {
  readonly isCompressed?: boolean;
  readonly yieldBy?: () => void;
  readonly cut?: () => void;
}

interface Started {
  readonly reading: ListReading;
  readonly release: jest.Mock;
  readonly ended: Promise<void>;
}

/** Begins to read a list of one piece. */
function start(cache: PieceCache, copy: () => AsyncGenerator<Buffer>, options: Options = {}): Started {
  const { isCompressed = true, yieldBy = (): void => undefined, cut = (): void => undefined } = options;
  const piece = { key: 'piece', first: '0', last: '99' };
  const version = { name: 'version', pieces: [piece], changes: 1, groups: 1 };
  const transaction = { version, copyPieces: copy, end: () => Promise.resolve() } as unknown as ListTransaction;
  const release = jest.fn();
  const reading = new ListReading({
    ...{ transaction, cache, user: { pieces: new Set(), cut }, isCompressed },
    slot: { release, yieldBy },
    ...{ onMissing: () => undefined, onRead: () => undefined, onLargePiece: () => undefined },
  });
  return { reading, release, ended: reading.run() };
}

/** Takes a list to its end or until it fails, as the reader and the responder do. */
async function take({ reading, release, ended }: Started): Promise<{ slots: number; chunks: number }> {
  let chunks = 0;
  try {
    for await (const chunk of reading.chunks()) {
      await chunk.deflated();
      chunk.release();
      chunks++;
    }
  } catch {
    // The copy has failed.
  } finally {
    await ended;
    reading.close();
  }
  return { slots: release.mock.calls.length, chunks };
}

/** Fake timers; what needs none of them goes on. */
function useFakeTimers(): void {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'clearImmediate', 'nextTick', 'queueMicrotask'] });
}

async function turnsUntil(condition: () => boolean): Promise<void> {
  while (!condition()) {
    await new Promise(setImmediate);
  }
}

describe('the reading of a list', () => {
  afterEach(() => {
    jest.useRealTimers();
  });

  it.each([
    ['100 orders', 100, 1],
    ['three full chunks', CHUNK_ROWS, 3],
  ])('of %s can be closed after its end, and releases its slot once', async (_what, count, parts) => {
    const copy = async function* (): AsyncGenerator<Buffer> {
      for (let part = 0; part < parts; part++) {
        yield await Promise.resolve(rows(count));
      }
      yield Buffer.alloc(0);
    };
    expect(await take(start(new PieceCache(CACHE_BYTES), copy))).toEqual({ slots: 1, chunks: parts });
  });

  it('may give up its slot after two seconds, also when it need not wait for its client', async () => {
    useFakeTimers();
    let goOn = (): void => undefined;
    const paused = new Promise<void>((resolve) => (goOn = resolve));
    const copy = async function* (): AsyncGenerator<Buffer> {
      await paused;
      yield Buffer.alloc(0);
    };
    const yieldBy = jest.fn();
    const list = take(start(new PieceCache(CACHE_BYTES), copy, { yieldBy }));
    jest.advanceTimersByTime(1_999);
    expect(yieldBy).not.toHaveBeenCalled();
    jest.advanceTimersByTime(1);
    expect(yieldBy).toHaveBeenCalledTimes(1);
    goOn();
    expect(await list).toEqual({ slots: 1, chunks: 0 });
  });

  it('is cut when it has waited for its client for a minute in all', async () => {
    useFakeTimers();
    const copy = async function* (): AsyncGenerator<Buffer> {
      for (let part = 0; part < 20; part++) {
        yield await Promise.resolve(rows(CHUNK_ROWS));
      }
    };
    const [yieldBy, cut] = [jest.fn(), jest.fn()];
    const { reading, ended } = start(new PieceCache(0), copy, { isCompressed: false, yieldBy, cut });
    await turnsUntil(() => yieldBy.mock.calls.length > 0);
    jest.advanceTimersByTime(40_000);
    const waits = yieldBy.mock.calls.length;
    // The client takes one chunk.
    for await (const chunk of reading.chunks()) {
      chunk.release();
      break;
    }
    await turnsUntil(() => yieldBy.mock.calls.length > waits);
    jest.advanceTimersByTime(19_999);
    expect(cut).not.toHaveBeenCalled();
    jest.advanceTimersByTime(1);
    expect(cut).toHaveBeenCalledTimes(1);
    reading.close();
    await ended;
  });

  it('waits for another list that reads the same piece, for a second', async () => {
    useFakeTimers();
    const cache = new PieceCache(CACHE_BYTES);
    cache.startReading('piece');
    const copy = jest.fn(async function* (): AsyncGenerator<Buffer> {
      yield await Promise.resolve(Buffer.alloc(0));
    });
    const { ended } = start(cache, copy);
    await turnsUntil(() => jest.getTimerCount() === 2);
    jest.advanceTimersByTime(999);
    await new Promise(setImmediate);
    expect(copy).not.toHaveBeenCalled();
    jest.advanceTimersByTime(1);
    await ended;
    expect(copy).toHaveBeenCalledTimes(1);
  });

  it('gives memory of the cache back when it fails in the middle of a piece', async () => {
    const cache = new PieceCache(CACHE_BYTES);
    const copy = async function* (): AsyncGenerator<Buffer> {
      yield await Promise.resolve(rows(CHUNK_ROWS));
      throw new Error('lost');
    };
    for (let time = 0; time < 50; time++) {
      expect((await take(start(cache, copy))).slots).toBe(1);
    }
    await waitFor(() => cache.hasRoomFor(CACHE_BYTES - 1_000), 'the cache is empty');
  });
});

describe('the cache of pieces', () => {
  it('drops a piece that was divided, although the list is the same', () => {
    const cache = new PieceCache(CACHE_BYTES);
    const chunk = { deflated: Buffer.allocUnsafeSlow(600_000), crc: 0, length: 1 };
    cache.show([{ key: 'whole', first: '0', last: '9' }]);
    expect(cache.reserve(chunk)).toBe(true);
    cache.add('whole', [chunk]);
    cache.show([
      { key: 'low', first: '0', last: '4' },
      { key: 'high', first: '5', last: '9' },
    ]);
    expect(cache.get('whole')).toBeUndefined();
    expect(cache.hasRoomFor(600_000)).toBe(true);
  });
});
