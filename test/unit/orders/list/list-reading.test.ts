import { ListReading } from '../../../../src/orders/list/list-reading.js';
import type { ListTransaction } from '../../../../src/orders/list/list-transaction.js';
import { CHUNK_ROWS } from '../../../../src/orders/list/order-list-encoder.js';
import { PieceCache } from '../../../../src/orders/list/piece-cache.js';
import { waitFor } from '../../../helpers/wait-for.js';

const CACHE_BYTES = 1_000_000;

function rows(count: number): Buffer {
  return Buffer.from(Array.from({ length: count }, (_, id) => `${id}\t7\t1\t\\N\tf\n`).join(''));
}

/** Reads a list of one piece, to its end or until it fails, as the reader and the responder do. */
async function read(
  cache: PieceCache,
  copy: () => AsyncGenerator<Buffer>,
  yieldBy: () => void = () => undefined,
): Promise<{ slots: number; chunks: number }> {
  const piece = { key: 'piece', first: '0', last: '99' };
  const version = { name: 'version', pieces: [piece], changes: 1, groups: 1 };
  const transaction = { version, copyPieces: copy, end: () => Promise.resolve() } as unknown as ListTransaction;
  let [slots, chunks] = [0, 0];
  const reading = new ListReading({
    ...{ transaction, cache, user: { pieces: new Set(), cut: () => undefined }, isCompressed: true },
    slot: { release: () => slots++, yieldBy },
    ...{ onMissing: () => undefined, onRead: () => undefined, onLargePiece: () => undefined },
  });
  const ended = reading.run();
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
  return { slots, chunks };
}

describe('the reading of a list', () => {
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
    expect(await read(new PieceCache(CACHE_BYTES), copy)).toEqual({ slots: 1, chunks: parts });
  });

  it('may give up its slot after two seconds, also when it need not wait for its client', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] });
    let goOn = (): void => undefined;
    const paused = new Promise<void>((resolve) => (goOn = resolve));
    const copy = async function* (): AsyncGenerator<Buffer> {
      await paused;
      yield Buffer.alloc(0);
    };
    const yieldBy = jest.fn();
    const ended = read(new PieceCache(CACHE_BYTES), copy, yieldBy);
    jest.advanceTimersByTime(1_999);
    expect(yieldBy).not.toHaveBeenCalled();
    jest.advanceTimersByTime(1);
    expect(yieldBy).toHaveBeenCalledTimes(1);
    jest.useRealTimers();
    goOn();
    expect(await ended).toEqual({ slots: 1, chunks: 0 });
  });

  it('gives memory of the cache back when it fails in the middle of a piece', async () => {
    const cache = new PieceCache(CACHE_BYTES);
    const copy = async function* (): AsyncGenerator<Buffer> {
      yield await Promise.resolve(rows(CHUNK_ROWS));
      throw new Error('lost');
    };
    for (let time = 0; time < 50; time++) {
      expect((await read(cache, copy)).slots).toBe(1);
    }
    await waitFor(() => cache.hasRoomFor(CACHE_BYTES - 1_000), 'the cache is empty');
  });
});

describe('the cache of pieces', () => {
  it('drops a piece that was divided, although the list is the same', () => {
    const cache = new PieceCache(CACHE_BYTES);
    const block = { deflated: Buffer.allocUnsafeSlow(600_000), crc: 0, length: 1 };
    cache.show([{ key: 'whole', first: '0', last: '9' }]);
    expect(cache.reserve(block)).toBe(true);
    cache.add('whole', [block]);
    cache.show([
      { key: 'low', first: '0', last: '4' },
      { key: 'high', first: '5', last: '9' },
    ]);
    expect(cache.get('whole')).toBeUndefined();
    expect(cache.hasRoomFor(600_000)).toBe(true);
  });
});
