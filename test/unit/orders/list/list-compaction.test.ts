import type { Pools } from '../../../../src/database/pools.js';
import { ListCompaction } from '../../../../src/orders/list/list-compaction.js';

afterEach(() => {
  jest.restoreAllMocks();
});

it('compacts when there are more than twice as many rows as the last compaction left, and 256', async () => {
  let now = 0;
  jest.spyOn(performance, 'now').mockImplementation(() => (now += 10_000));
  const query = jest.fn(() => Promise.resolve({ rows: [{ page: null }] }));
  const compaction = new ListCompaction({ main: { query } } as unknown as Pools);
  const queriesAfter = async (rows: number): Promise<number> => {
    compaction.compactIfNeeded(rows);
    await new Promise((resolve) => setImmediate(resolve));
    return query.mock.calls.length;
  };
  expect(await queriesAfter(256)).toBe(0);
  expect(await queriesAfter(257)).toBe(1);
  // What it has left.
  expect(await queriesAfter(1_000)).toBe(1);
  expect(await queriesAfter(2_256)).toBe(1);
  expect(await queriesAfter(2_257)).toBe(2);
});

it('compacts at most once a second, so that one that fails is not repeated for every list', async () => {
  let now = 0;
  jest.spyOn(performance, 'now').mockImplementation(() => now);
  const query = jest.fn(() => Promise.resolve({ rows: [{ page: null }] }));
  const compaction = new ListCompaction({ main: { query } } as unknown as Pools);
  const queriesAfter = async (ms: number): Promise<number> => {
    now += ms;
    compaction.start();
    await new Promise((resolve) => setImmediate(resolve));
    return query.mock.calls.length;
  };
  expect(await queriesAfter(0)).toBe(1);
  expect(await queriesAfter(999)).toBe(1);
  expect(await queriesAfter(1)).toBe(2);
});
