import type { DeflatedChunk } from '../../../../src/orders/list/gzip.js';
import type { ReadChunk } from '../../../../src/orders/list/list-chunk.js';
import { PieceCache } from '../../../../src/orders/list/piece-cache.js';
import { type ReadPiece, UnsentChunks } from '../../../../src/orders/list/unsent-chunks.js';

const TEXT = '{"id":1}'.repeat(20_000);
/** Before Node 22 no memory is freed by hand. */
const IS_FREED = 'transfer' in ArrayBuffer.prototype;

const recycle = jest.fn();
let piece: ReadPiece;

beforeEach(() => {
  recycle.mockClear();
  piece = { chunks: [] };
});

/** Adds the only chunk of a piece. */
function read(isCompressed: boolean, cacheBytes: number): ReadChunk {
  const cache = new PieceCache(cacheBytes);
  cache.show({ name: 'version', pieces: [{ key: 'piece', first: '0', last: '9' }] });
  const nothing = (): void => undefined;
  const slot = { release: nothing, yieldBy: nothing };
  const user = cache.startUsing('a', nothing);
  const unsent = new UnsentChunks({ slot, cache, user, isCompressed, onFilled: nothing }, recycle);
  const chunk = unsent.add(Buffer.from(TEXT), piece);
  unsent.end(piece, 'piece');
  return chunk;
}

async function settled(chunk: ReadChunk): Promise<DeflatedChunk> {
  const deflated = await chunk.deflated();
  await new Promise(setImmediate);
  return deflated;
}

describe('a chunk that its client gets compressed', () => {
  it.each([
    ['the cache keeps it', 1_000_000, true],
    ['the cache does not keep it', 0, false],
  ])('needs its plain bytes until it is compressed, when %s', async (_what, cacheBytes, isKept) => {
    const chunk = read(true, cacheBytes);
    expect(chunk.ownBytes).toBe(TEXT.length);
    const { deflated } = await settled(chunk);
    const { length } = deflated;
    expect([chunk.ownBytes, recycle.mock.calls.length]).toEqual([isKept ? 0 : length, 1]);
    chunk.release();
    await new Promise(setImmediate);
    expect(deflated).toHaveLength(isKept || !IS_FREED ? length : 0);
  });
});

describe('a chunk that its client gets as it is', () => {
  it('is not given up while it is compressed for the cache, although it has been sent', async () => {
    const chunk = read(false, 1_000_000);
    const plain = await chunk.plain();
    chunk.release();
    await Promise.resolve();
    expect(recycle.mock.calls).toEqual([]);
    await settled(chunk);
    expect(recycle.mock.calls).toEqual([[plain]]);
  });

  it('gives up its plain bytes once the cache has it, and is decompressed for its client then', async () => {
    const chunk = read(false, 1_000_000);
    await settled(chunk);
    expect([chunk.ownBytes, recycle.mock.calls.length]).toEqual([0, 1]);
    expect((await chunk.plain()).toString()).toBe(TEXT);
  });

  it('does not give up its plain bytes when it is being sent', async () => {
    const chunk = read(false, 1_000_000);
    const plain = chunk.plain();
    await settled(chunk);
    expect([(await plain).toString() === TEXT, recycle.mock.calls]).toEqual([true, []]);
    chunk.release();
    await new Promise(setImmediate);
    expect(recycle.mock.calls).toEqual([[await plain]]);
  });

  it('is not compressed where there is no room in the cache', async () => {
    const chunk = read(false, 0);
    await new Promise(setImmediate);
    expect([chunk.compressed, chunk.ownBytes, (await chunk.plain()).toString()]).toEqual([
      undefined,
      TEXT.length,
      TEXT,
    ]);
    chunk.release();
    await new Promise(setImmediate);
    expect([chunk.ownBytes, recycle.mock.calls.length]).toEqual([0, 1]);
  });
});
