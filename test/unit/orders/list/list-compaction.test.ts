import type { Pools } from '../../../../src/database/pools.js';
import { ListCompaction } from '../../../../src/orders/list/list-compaction.js';

// All test files of a worker share `performance`.
afterEach(() => {
  jest.restoreAllMocks();
});

/** A compaction of one step that leaves so many rows, and how many steps have been taken. */
function compactionThatLeaves(count: number): [ListCompaction, () => number] {
  const query = jest.fn<Promise<unknown>, [string]>().mockResolvedValue({ rows: [{ page: null, count }] });
  const compaction = new ListCompaction({ main: { query } } as unknown as Pools);
  return [compaction, () => query.mock.calls.filter(([text]) => text.includes('compact_')).length];
}

it('compacts when there are more than twice as many rows as the last compaction left, and 256', async () => {
  let now = 0;
  jest.spyOn(performance, 'now').mockImplementation(() => (now += 10_000));
  const [compaction, steps] = compactionThatLeaves(1_000);
  const stepsAfter = async (rows: number): Promise<number> => {
    compaction.compactIfNeeded(rows);
    await new Promise((resolve) => setImmediate(resolve));
    return steps();
  };
  expect(await stepsAfter(256)).toBe(0);
  expect(await stepsAfter(257)).toBe(1);
  expect(await stepsAfter(2_256)).toBe(1);
  expect(await stepsAfter(2_257)).toBe(2);
  // Too many to be counted.
  expect(await stepsAfter(Infinity)).toBe(3);
});

it('compacts at most once a second, so that one that fails is not repeated for every list', async () => {
  let now = 0;
  jest.spyOn(performance, 'now').mockImplementation(() => now);
  const [compaction, steps] = compactionThatLeaves(1_000);
  const stepsAfter = async (ms: number): Promise<number> => {
    now += ms;
    compaction.compactIfNeeded(Infinity);
    await new Promise((resolve) => setImmediate(resolve));
    return steps();
  };
  expect(await stepsAfter(0)).toBe(1);
  expect(await stepsAfter(999)).toBe(1);
  expect(await stepsAfter(1)).toBe(2);
});
