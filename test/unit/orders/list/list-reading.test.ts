import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { ListChunk, ReadChunk } from '../../../../src/orders/list/list-chunk.js';
import { ListReading } from '../../../../src/orders/list/list-reading.js';
import { ClientDisconnected } from '../../../../src/orders/list/list-writer.js';
import type { Piece } from '../../../../src/orders/list/list-version.js';
import type { ListTransaction } from '../../../../src/orders/list/list-transaction.js';
import { CHUNK_ROWS } from '../../../../src/orders/list/order-list-encoder.js';
import { Metrics } from '../../../../src/metrics/metrics.js';
import { PieceCache } from '../../../../src/orders/list/piece-cache.js';
import { waitFor } from '../../../helpers/wait-for.js';

const CACHE_BYTES = 1_000_000;

function rows(count: number): Buffer {
  return Buffer.from(Array.from({ length: count }, (_, id) => `d....${id}\t7\t1\t\\N\tf\n`).join(''));
}

interface Options {
  readonly isCompressed?: boolean;
  readonly yieldBy?: () => void;
  readonly cut?: () => void;
  readonly onFilled?: () => void;
}

interface Started {
  readonly reading: ListReading;
  readonly release: jest.Mock;
  readonly ended: Promise<void>;
  /** The pieces of its version. */
  readonly pieces: WeakRef<object>;
}

/** Begins a transaction that shows these pieces. */
function beginning(pieces: readonly Piece[], copy: () => AsyncGenerator<Buffer>): () => Promise<ListTransaction> {
  const version = { name: 'version', pieces, blocksPerGroup: 1 };
  const transaction = { version, copyPieces: copy, end: () => Promise.resolve() };
  return () => Promise.resolve(transaction as unknown as ListTransaction);
}

/** Begins to read a list of one piece. */
function start(cache: PieceCache, copy: () => AsyncGenerator<Buffer>, options: Options = {}): Started {
  const nothing = (): void => undefined;
  const { isCompressed = true, yieldBy = nothing, cut = nothing, onFilled = nothing } = options;
  const piece = { key: 'piece', first: '0', last: '99' };
  const pieces = [piece];
  const release = jest.fn();
  const reading = new ListReading({
    ...{ cache, user: cache.startUsing('a', cut), isCompressed, onFilled },
    slot: { release, yieldBy },
    metrics: new Metrics(),
    compaction: { noteBlocks: nothing },
  });
  return { reading, release, ended: reading.run(beginning(pieces, copy)), pieces: new WeakRef(pieces) };
}

/** A COPY that sends a piece in parts of so many orders, and ends it after `end`. */
async function* copyOf(
  parts: number,
  orders = CHUNK_ROWS,
  end: () => unknown = () => undefined,
): AsyncGenerator<Buffer> {
  for (let part = 0; part < parts; part++) {
    yield rows(orders);
  }
  await end();
  yield Buffer.alloc(0);
}

/** Takes a list to its end or until it fails, as the reader and the responder do. */
async function take({ reading, release, ended }: Started): Promise<{ slots: number; chunks: number; error: unknown }> {
  let [chunks, error]: [number, unknown] = [0, undefined];
  try {
    for await (const chunk of reading.chunks()) {
      await chunk.deflated();
      chunk.release();
      chunks++;
    }
  } catch (caught) {
    error = caught;
  }
  await ended;
  reading.close();
  return { slots: release.mock.calls.length, chunks, error };
}

function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
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
    const copy = (): AsyncGenerator<Buffer> => copyOf(parts, count);
    expect(await take(start(new PieceCache(CACHE_BYTES), copy))).toEqual({ slots: 1, chunks: parts });
  });

  it('may give up its slot after two seconds, also when it need not wait for its client', async () => {
    useFakeTimers();
    let goOn = (): void => undefined;
    const paused = new Promise<void>((resolve) => (goOn = resolve));
    const yieldBy = jest.fn();
    const list = take(start(new PieceCache(CACHE_BYTES), () => copyOf(0, 0, () => paused), { yieldBy }));
    // The transaction has begun.
    await new Promise(setImmediate);
    jest.advanceTimersByTime(1_999);
    expect(yieldBy).not.toHaveBeenCalled();
    jest.advanceTimersByTime(1);
    expect(yieldBy).toHaveBeenCalledTimes(1);
    goOn();
    expect(await list).toEqual({ slots: 1, chunks: 0 });
  });

  it('is cut when it has waited for its client for a minute in all', async () => {
    useFakeTimers();
    const [yieldBy, cut] = [jest.fn(), jest.fn()];
    const { reading, ended } = start(new PieceCache(0), () => copyOf(20), { isCompressed: false, yieldBy, cut });
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

  it.each([
    ['when the memory is full', 0, 20, { isRead: false, isKept: false }],
    ['when its last piece is in the memory', CACHE_BYTES, 1, { isRead: true, isKept: true }],
  ])('lets others go on %s', async (_what, cacheBytes, parts, state) => {
    let isRead = false;
    const copy = (): AsyncGenerator<Buffer> => copyOf(parts, CHUNK_ROWS, () => (isRead = true));
    const cache = new PieceCache(cacheBytes);
    const onFilled = jest.fn(() => ({ isRead, isKept: cache.get('piece') !== undefined }));
    const started = start(cache, copy, { isCompressed: false, onFilled });
    await turnsUntil(() => onFilled.mock.calls.length > 0);
    expect(onFilled.mock.results[0]?.value).toEqual(state);
    started.reading.close();
    await started.ended;
  });

  it('keeps no names of pieces while its client has not taken all', async () => {
    const cache = new PieceCache(CACHE_BYTES);
    const { reading, ended, pieces } = start(cache, () => copyOf(2));
    await ended;
    await waitFor(() => cache.get('piece') !== undefined, 'the piece is in the cache');
    cache.clear();
    collectGarbage();
    expect(pieces.deref()).toBeUndefined();
    let chunks = 0;
    for await (const chunk of reading.chunks()) {
      expect((await chunk.deflated()).length).toBeGreaterThan(0);
      chunks++;
    }
    expect(chunks).toBe(2);
  });

  it('ends the wait for the next chunk when its client is gone', async () => {
    let goOn = (): void => undefined;
    const paused = new Promise<void>((resolve) => (goOn = resolve));
    const { reading, ended } = start(new PieceCache(CACHE_BYTES), () => copyOf(0, 0, () => paused));
    const ready = reading.ready();
    reading.close();
    await expect(ready).rejects.toThrow(ClientDisconnected);
    goOn();
    await ended;
  });

  it('shares the memory of another list that has read the same piece', async () => {
    const cache = new PieceCache(CACHE_BYTES);
    const lists = [start(cache, () => copyOf(2)), start(cache, () => copyOf(2))];
    await Promise.all(lists.map(({ ended }) => ended));
    await waitFor(() => cache.get('piece')?.users === 2, 'both lists hold the piece');
    const { chunks } = cache.get('piece')!;
    for (const { reading } of lists) {
      let index = 0;
      for await (const chunk of reading.chunks()) {
        expect(await chunk.deflated()).toBe(chunks[index++]);
      }
      expect(index).toBe(2);
    }
  });

  it.each([
    ['does not fit', 6, 150_000, false],
    ['has many chunks and fits', 17, CACHE_BYTES, true],
  ])('keeps a piece or not that %s', async (_what, parts, cacheBytes, isKept) => {
    const cache = new PieceCache(cacheBytes);
    cache.show({ name: 'version', pieces: [{ key: 'piece', first: '0', last: '99' }] });
    expect(await take(start(cache, () => copyOf(parts)))).toEqual({ slots: 1, chunks: parts });
    await new Promise(setImmediate);
    expect(cache.get('piece')?.chunks.length).toBe(isKept ? parts : undefined);
    expect(cache.hasRoomFor(cacheBytes - 1_000)).toBe(!isKept);
  });

  it('holds the memory that the cache has reserved for a piece that does not fit until its chunks are sent', async () => {
    const cache = new PieceCache(150_000);
    const { reading, ended } = start(cache, () => copyOf(6));
    const chunks: ListChunk[] = [];
    for await (const chunk of reading.chunks()) {
      await chunk.deflated();
      chunks.push(chunk);
    }
    await new Promise(setImmediate);
    expect([cache.get('piece'), cache.hasRoomFor(140_000)]).toEqual([undefined, false]);
    chunks.slice(0, 3).forEach((chunk) => chunk.release());
    reading.close();
    await ended;
    expect(cache.hasRoomFor(149_000)).toBe(true);
  });

  it.each([true, false])(
    'reads a piece that fits without waiting for its client (compressed: %s)',
    async (isCompressed) => {
      const yieldBy = jest.fn();
      const { ended, reading } = start(new PieceCache(CACHE_BYTES), () => copyOf(12), { isCompressed, yieldBy });
      await ended;
      expect(yieldBy).not.toHaveBeenCalled();
      reading.close();
    },
  );

  it('gives up the plain bytes of chunks in the cache when all is read', async () => {
    const { reading, release, ended } = start(new PieceCache(CACHE_BYTES), () => copyOf(2, CHUNK_ROWS), {
      isCompressed: false,
    });
    await ended;
    expect(release).toHaveBeenCalledTimes(1);
    for await (const chunk of reading.chunks()) {
      expect((chunk as ReadChunk).ownBytes).toBe(0);
      chunk.release();
    }
  });

  it('holds its slot until its client has taken what has memory of its own', async () => {
    const yieldBy = jest.fn();
    const { reading, release, ended } = start(new PieceCache(0), () => copyOf(1), { yieldBy });
    await turnsUntil(() => yieldBy.mock.calls.length > 0);
    expect(release).not.toHaveBeenCalled();
    for await (const chunk of reading.chunks()) {
      await chunk.deflated();
      chunk.release();
    }
    await ended;
    expect(release).toHaveBeenCalledTimes(1);
  });

  it('gives memory of the cache back when it fails in the middle of a piece', async () => {
    const cache = new PieceCache(CACHE_BYTES);
    const copy = (): AsyncGenerator<Buffer> => copyOf(1, CHUNK_ROWS, () => Promise.reject(new Error('lost')));
    for (let time = 0; time < 50; time++) {
      expect(await take(start(cache, copy))).toMatchObject({ slots: 1, error: new Error('lost') });
    }
    await waitFor(() => cache.hasRoomFor(CACHE_BYTES - 1_000), 'the cache is empty');
  });
});
