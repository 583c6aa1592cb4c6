import { Logger } from '@nestjs/common';
import type { Pools } from '../../../../src/database/pools.js';
import { ListCompaction } from '../../../../src/orders/list/list-compaction.js';

beforeEach(() => jest.useFakeTimers({ now: 0, doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] }));
afterEach(() => jest.useRealTimers());

interface Step {
  readonly page: string;
  readonly pages: number;
}

/** A table of so many pages in which a merge leaves so many rows; a step of more than `pagesMax` pages is cancelled. */
function compactionOf({ pages, left, pagesMax = Infinity }: { pages: number; left: number; pagesMax?: number }): {
  compaction: ListCompaction;
  steps: Step[];
} {
  const steps: Step[] = [];
  const query = (_text: string, values?: [string, number]): Promise<unknown> => {
    if (values === undefined) {
      return Promise.resolve({ rows: [{ count: left }] });
    }
    const [page, step] = values;
    steps.push({ page, pages: step });
    const next = Number(page) + step;
    return step > pagesMax
      ? Promise.reject(Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' }))
      : Promise.resolve({ rows: [{ page: next < pages ? String(next) : null }] });
  };
  return { compaction: new ListCompaction({ main: { query } } as unknown as Pools), steps };
}

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));

it('merges when there are more than twice as many rows as the last merge left, and 256', async () => {
  const { compaction, steps } = compactionOf({ pages: 1, left: 1_000 });
  const stepsAfter = async (rows: number): Promise<number> => {
    jest.advanceTimersByTime(10_000);
    compaction.compactIfNeeded(rows);
    await settle();
    return steps.length;
  };
  expect(await stepsAfter(256)).toBe(0);
  expect(await stepsAfter(257)).toBe(1);
  expect(await stepsAfter(2_256)).toBe(1);
  expect(await stepsAfter(2_257)).toBe(2);
  // Too many to be counted.
  expect(await stepsAfter(Infinity)).toBe(3);
});

it.each([
  ['succeeds', Infinity, [1, 1, 2]],
  // After two smaller steps.
  ['fails', 0, [3, 3, 4]],
])('merges again a second after one that %s, and not for every list', async (_what, pagesMax, expected) => {
  jest.spyOn(Logger.prototype, 'warn').mockImplementation();
  const { compaction, steps } = compactionOf({ pages: 1, left: 1_000, pagesMax });
  const stepsAfter = async (ms: number): Promise<number> => {
    jest.advanceTimersByTime(ms);
    compaction.compactIfNeeded(Infinity);
    await settle();
    return steps.length;
  };
  expect([await stepsAfter(0), await stepsAfter(999), await stepsAfter(1)]).toEqual(expected);
});

it('takes all pages in steps, larger ones while they are fast, and smaller ones after a statement timeout', async () => {
  const { compaction, steps } = compactionOf({ pages: 2_000, left: 1, pagesMax: 600 });
  compaction.compactIfNeeded(Infinity);
  await settle();
  expect(steps).toEqual([
    { page: '0', pages: 250 },
    { page: '250', pages: 500 },
    { page: '750', pages: 1_000 },
    { page: '750', pages: 250 },
    { page: '1000', pages: 500 },
    { page: '1500', pages: 1_000 },
    { page: '1500', pages: 250 },
    { page: '1750', pages: 500 },
  ]);
});

it('merges by itself although no list is asked for, until the process stops', async () => {
  const { compaction, steps } = compactionOf({ pages: 1, left: 1 });
  compaction.onApplicationBootstrap();
  for (const expected of [1, 2]) {
    await jest.advanceTimersByTimeAsync(30_000);
    await settle();
    expect(steps).toHaveLength(expected);
  }
  compaction.onModuleDestroy();
  await jest.advanceTimersByTimeAsync(120_000);
  await settle();
  expect(steps).toHaveLength(2);
});
