import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Config } from '../../../../src/config/config.js';
import type { Metrics } from '../../../../src/metrics/metrics.js';
import { ListImages } from '../../../../src/orders/list/list-images.js';
import type { ListTransactions } from '../../../../src/orders/list/list-transaction.js';
import type { ListVersion } from '../../../../src/orders/list/list-version.js';
import type { EncodedChunk } from '../../../../src/orders/list/order-list-encoder.js';

beforeEach(() => jest.useFakeTimers({ doNotFake: ['setImmediate', 'clearImmediate', 'nextTick', 'queueMicrotask'] }));
afterEach(() => jest.useRealTimers());

const versionOf = (name: string): ListVersion => ({ name, basis: name });

/** A database that delivers each order when {@link deliver} is called. */
class SlowDatabase {
  /** What the next list begins with. */
  version = versionOf('first');
  /** Whether each transaction was complete when it ended. */
  readonly ended: boolean[] = [];
  #deliver: (() => void)[] = [];

  readonly transactions = {
    begin: () =>
      Promise.resolve({
        version: this.version,
        sums: () => Promise.resolve(['0']),
        orders: () => this.#orders(),
        end: (isComplete: boolean) => {
          this.ended.push(isComplete);
          return Promise.resolve();
        },
      }),
  } as unknown as ListTransactions;

  /** Lets the statement that waits deliver its next order, once it waits. */
  async deliver(): Promise<void> {
    await until(() => this.#deliver.length > 0);
    this.#deliver.shift()?.();
  }

  async *#orders(): AsyncGenerator<EncodedChunk> {
    for (const block of [0, 1]) {
      await new Promise<void>((resolve) => this.#deliver.push(resolve));
      yield { bytes: Buffer.from(`{"id":${block}}`), rows: 1, block };
    }
  }
}

async function until(condition: () => boolean): Promise<void> {
  for (let turn = 0; !condition(); turn++) {
    if (turn > 10_000) {
      throw new Error('The condition has not become true.');
    }
    await nextTurn();
  }
}

const METRICS = { listPieces: { labels: () => ({ inc: () => undefined }) } } as unknown as Metrics;
const CONFIG = { list: { cacheBytes: 1_000_000 } } as unknown as Config;

let database: SlowDatabase;
let images: ListImages;
beforeEach(() => {
  database = new SlowDatabase();
  images = new ListImages(database.transactions, CONFIG, METRICS);
});

/** @returns whether memory has the list, in time */
const isInMemory = (): Promise<boolean> =>
  images.use(
    database.version,
    () => undefined,
    () => Promise.resolve(),
  );

it('waits 20 seconds for an image, and a minute not at all, unless the late one is current', async () => {
  const first = isInMemory();
  await jest.advanceTimersByTimeAsync(20_000);
  expect(await first).toBe(false);
  await jest.advanceTimersByTimeAsync(1);
  expect(await isInMemory()).toBe(false);
  await database.deliver();
  await database.deliver();
  await until(() => database.ended.length === 1);
  expect(database.ended).toEqual([true]);
  expect(await isInMemory()).toBe(true);

  database.version = versionOf('second');
  await jest.advanceTimersByTimeAsync(60_000);
  expect(await isInMemory()).toBe(false);
  await jest.advanceTimersByTimeAsync(1);
  // The one after a minute begins an image in the background.
  expect(await isInMemory()).toBe(false);
  await database.deliver();
  await database.deliver();
  await until(() => database.ended.length === 2);
  expect(await isInMemory()).toBe(true);
});

it('does not finish an image that no list waits for when the process stops', async () => {
  const first = isInMemory();
  await jest.advanceTimersByTimeAsync(20_000);
  expect(await first).toBe(false);
  images.onModuleDestroy();
  await database.deliver();
  await until(() => database.ended.length === 1);
  expect(database.ended).toEqual([false]);
});

it('finishes an image that a list waits for when the process stops', async () => {
  const first = isInMemory();
  await nextTurn();
  images.onModuleDestroy();
  await database.deliver();
  await database.deliver();
  expect(await first).toBe(true);
  expect(database.ended).toEqual([true]);
});
