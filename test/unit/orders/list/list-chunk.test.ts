import { deflate, type DeflatedChunk } from '../../../../src/orders/list/gzip.js';
import { type Compressed, ReadChunk } from '../../../../src/orders/list/list-chunk.js';

const TEXT = '{"id":1}'.repeat(20_000);
/** Before Node 22 no memory is freed by hand. */
const IS_FREED = 'transfer' in ArrayBuffer.prototype;

let deflated: DeflatedChunk;
let finish: (isKept: boolean) => Promise<void>;
let fail: () => Promise<void>;
let compressing: Promise<Compressed>;
const onFreed = jest.fn();
const recycle = jest.fn();

beforeEach(async () => {
  deflated = await deflate(Buffer.from(TEXT));
  onFreed.mockClear();
  recycle.mockClear();
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  compressing = new Promise((resolve, reject) => {
    finish = (isKept) => {
      resolve({ chunk: deflated, isKept });
      return turn();
    };
    fail = () => {
      reject(new Error('out of memory'));
      return turn();
    };
  });
});

const read = (sendsPlain: boolean): ReadChunk =>
  new ReadChunk(Buffer.from(TEXT), compressing, sendsPlain, onFreed, recycle);

describe('a chunk that its client gets compressed', () => {
  it.each([
    ['the cache keeps it', true, 0],
    ['the cache does not keep it', false, 'deflated'],
  ])('needs its plain bytes until it is compressed, when %s', async (_what, isKept, then) => {
    const chunk = read(false);
    expect([chunk.isCompressing, chunk.ownBytes]).toEqual([true, TEXT.length]);
    await finish(isKept);
    const { length } = deflated.deflated;
    expect([chunk.isCompressing, chunk.ownBytes]).toEqual([false, then === 'deflated' ? length : then]);
    expect(onFreed).toHaveBeenCalledTimes(1);
    expect(await chunk.deflated()).toBe(deflated);
    chunk.release();
    expect(chunk.ownBytes).toBe(0);
    expect(deflated.deflated).toHaveLength(isKept || !IS_FREED ? length : 0);
    expect(onFreed).toHaveBeenCalledTimes(2);
  });

  it('is no longer being compressed when that has failed', async () => {
    const chunk = read(false);
    await fail();
    expect(chunk.isCompressing).toBe(false);
    expect(onFreed).toHaveBeenCalledTimes(1);
    await expect(chunk.deflated()).rejects.toThrow('out of memory');
  });
});

describe('a chunk that its client gets as it is', () => {
  it('is not given up while it is compressed for the cache, although it has been sent', async () => {
    const chunk = read(true);
    const plain = await chunk.plain();
    chunk.release();
    expect([chunk.ownBytes, recycle.mock.calls]).toEqual([TEXT.length, []]);
    await finish(true);
    expect(chunk.ownBytes).toBe(0);
    expect(recycle.mock.calls).toEqual([[plain]]);
  });

  it('gives up its plain bytes once the cache has it, and is decompressed for its client then', async () => {
    const chunk = read(true);
    expect(chunk.ownBytes).toBe(TEXT.length);
    await finish(true);
    expect(chunk.ownBytes).toBe(0);
    expect((await chunk.plain()).toString()).toBe(TEXT);
  });

  it.each([
    ['the cache does not keep it', false, false],
    ['it is being sent', true, true],
  ])('does not give up its plain bytes when %s', async (_what, isKept, isTaken) => {
    const chunk = read(true);
    const plain = isTaken ? chunk.plain() : undefined;
    await finish(isKept);
    expect(chunk.ownBytes).toBe(TEXT.length);
    expect((await (plain ?? chunk.plain())).toString()).toBe(TEXT);
  });

  it('needs no compression where there is no room in the cache', async () => {
    const chunk = new ReadChunk(Buffer.from(TEXT), undefined, true, onFreed, recycle);
    expect([chunk.isCompressing, (await chunk.plain()).toString()]).toEqual([false, TEXT]);
    chunk.release();
    expect(chunk.ownBytes).toBe(0);
    await expect(chunk.deflated()).rejects.toThrow(TypeError);
  });
});
