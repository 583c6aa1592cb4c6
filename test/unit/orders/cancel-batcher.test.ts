import type { Config } from '../../../src/config/config.js';
import { loadConfig } from '../../../src/config/load-config.js';
import { DomainError } from '../../../src/errors/domain-error.js';
import { Metrics } from '../../../src/metrics/metrics.js';
import { CancelBatcher } from '../../../src/orders/cancel-batcher.js';
import type { OrdersRepository, OrderStatus, SeenStatus } from '../../../src/orders/orders.repository.js';

const LOCK_TIMEOUT_MS = 1_000;
const UNAVAILABLE = new DomainError('service_unavailable', 'The database is unavailable.');

/** A statement that has been sent and completes when the test completes it. */
interface Statement<T> {
  readonly ids: readonly bigint[];
  readonly complete: (result: T) => void;
  readonly fail: (error: Error) => void;
}

/** A repository whose statements stay open until the test completes them. */
class FakeRepository {
  readonly batches: Statement<Map<bigint, SeenStatus>>[] = [];
  readonly waits: Statement<OrderStatus | undefined>[] = [];

  cancelUnlocked(ids: readonly bigint[]): Promise<Map<bigint, SeenStatus>> {
    return new Promise((complete, fail) => this.batches.push({ ids, complete, fail }));
  }

  cancelWaiting(id: bigint): Promise<OrderStatus | undefined> {
    return new Promise((complete, fail) => this.waits.push({ ids: [id], complete, fail }));
  }

  get batchIds(): (readonly bigint[])[] {
    return this.batches.map(({ ids }) => ids);
  }

  get waitIds(): (readonly bigint[])[] {
    return this.waits.map(({ ids }) => ids);
  }
}

let repository: FakeRepository;
let metrics: Metrics;
let batcher: CancelBatcher;
beforeEach(() => {
  jest.useFakeTimers();
  repository = new FakeRepository();
  const config: Config = loadConfig({ CANCEL_LOCK_TIMEOUT_MS: String(LOCK_TIMEOUT_MS) });
  metrics = new Metrics();
  batcher = new CancelBatcher(repository as unknown as OrdersRepository, config, metrics);
});
afterEach(() => {
  jest.useRealTimers();
});

const turn = (): Promise<void> => jest.advanceTimersByTimeAsync(0);

/** Cancels orders in one turn of the event loop; the returned list shows the state of each cancel. */
async function cancel(...ids: bigint[]): Promise<string[]> {
  const results = ids.map(() => 'open');
  ids.forEach((id, index) => {
    batcher.cancel(id).then(
      (status) => (results[index] = status ?? 'absent'),
      (error: unknown) => (results[index] = error instanceof DomainError ? error.code : String(error)),
    );
  });
  await turn();
  return results;
}

/** Completes a batch with a status for each of its orders. */
async function complete(
  statement: Statement<Map<bigint, SeenStatus>> | undefined,
  status: SeenStatus | ((id: bigint) => SeenStatus) = 'pending',
): Promise<void> {
  const pairs = statement?.ids.map((id) => [id, typeof status === 'string' ? status : status(id)] as const);
  statement?.complete(new Map(pairs));
  await turn();
}

async function fail(statement: { fail(error: Error): void } | undefined, error: Error): Promise<void> {
  statement?.fail(error);
  await turn();
}

async function metric(name: string): Promise<number | undefined> {
  const found = (await metrics.registry.getMetricsAsJSON()).find((each) => each.name === name);
  return found?.values.find((each) => !('metricName' in each) || each.metricName === `${name}_sum`)?.value;
}

describe('cancels in one turn of the event loop', () => {
  it('share a statement, and each gets the status of its own order', async () => {
    const results = await cancel(1n, 2n, 3n, 4n);
    expect(repository.batchIds).toEqual([[1n, 2n, 3n, 4n]]);
    repository.batches[0]?.complete(
      new Map<bigint, SeenStatus>([
        [3n, 'shipped'],
        [2n, 'cancelled'],
        [1n, 'pending'],
      ]),
    );
    await turn();
    expect(results).toEqual(['pending', 'cancelled', 'shipped', 'absent']);
    expect(await metric('petstore_cancel_batch_size')).toBe(4);
  });

  it('of the same order send its id once, and only the first one gets the status pending', async () => {
    const results = await cancel(1n, 2n, 1n, 2n, 1n);
    expect(repository.batchIds).toEqual([[1n, 2n]]);
    await complete(repository.batches[0], (id) => (id === 1n ? 'pending' : 'shipped'));
    expect(results).toEqual(['pending', 'shipped', 'cancelled', 'shipped', 'cancelled']);
  });

  it('are split into statements of at most 500 orders', async () => {
    await cancel(...Array.from({ length: 501 }, (_, index) => BigInt(index)));
    expect(repository.batchIds.map((ids) => ids.length)).toEqual([500, 1]);
  });
});

describe('cancels that arrive while two statements are running', () => {
  it('share the next statement, which starts when one of the two completes', async () => {
    const [first] = [await cancel(1n), await cancel(2n)];
    const later = [await cancel(3n), await cancel(4n)];
    expect(repository.batchIds).toEqual([[1n], [2n]]);
    await complete(repository.batches[0]);
    expect(first).toEqual(['pending']);
    expect(repository.batchIds).toEqual([[1n], [2n], [3n, 4n]]);
    await complete(repository.batches[2]);
    expect(later).toEqual([['pending'], ['pending']]);
  });

  it('also start when one of the two fails, and only the cancels of that one fail', async () => {
    const failing = await cancel(1n, 2n);
    await cancel(3n);
    const later = await cancel(4n);
    await fail(repository.batches[0], UNAVAILABLE);
    expect(failing).toEqual(['service_unavailable', 'service_unavailable']);
    await complete(repository.batches[2]);
    expect(later).toEqual(['pending']);
  });
});

describe('a statement for several orders that fails', () => {
  const rejected = Object.assign(new Error('raised by a trigger'), { code: 'P0001' });
  const timedOut = new DomainError('service_unavailable', 'Timeout.', {
    cause: Object.assign(new Error('statement timeout'), { code: '57014' }),
  });

  it('is repeated order by order when the server rejected it, and only the order that causes the error fails', async () => {
    const results = await cancel(1n, 2n, 3n, 2n);
    await fail(repository.batches[0], rejected);
    await complete(repository.batches[1]);
    await fail(repository.batches[2], rejected);
    await complete(repository.batches[3], 'shipped');
    expect(repository.batchIds).toEqual([[1n, 2n, 3n], [1n], [2n], [3n]]);
    expect(results).toEqual(['pending', String(rejected), 'shipped', String(rejected)]);
  });

  it('is repeated until an order times out again, and the remaining orders fail without another wait', async () => {
    const results = await cancel(1n, 2n, 3n, 4n);
    await fail(repository.batches[0], timedOut);
    await complete(repository.batches[1]);
    await fail(repository.batches[2], timedOut);
    expect(repository.batchIds).toEqual([[1n, 2n, 3n, 4n], [1n], [2n]]);
    expect(results).toEqual(['pending', 'service_unavailable', 'service_unavailable', 'service_unavailable']);
  });

  it.each([
    ['a lost connection', undefined],
    ['a server that shuts down', '57P01'],
    ['a full disk', '53100'],
  ])('is not repeated after %s', async (_what, code) => {
    const results = await cancel(1n, 2n);
    const cause = Object.assign(new Error('lost'), code === undefined ? {} : { code });
    await fail(repository.batches[0], new DomainError('service_unavailable', 'Unavailable.', { cause }));
    expect(repository.batches).toHaveLength(1);
    expect(results).toEqual(['service_unavailable', 'service_unavailable']);
  });

  it('releases its slot after the last repetition', async () => {
    await cancel(1n, 2n);
    await cancel(3n);
    await fail(repository.batches[0], rejected);
    const later = await cancel(4n);
    await complete(repository.batches[2]);
    expect(repository.batchIds.slice(2)).toEqual([[1n], [2n]]);
    await complete(repository.batches[3]);
    await complete(repository.batches[4]);
    expect(later).toEqual(['pending']);
  });
});

describe('an order that another transaction has locked', () => {
  const LOCK_TIMEOUT = new DomainError('service_unavailable', 'The lock timeout has passed.');

  /** Cancels orders that are locked. */
  async function cancelLocked(...ids: bigint[]): Promise<string[]> {
    const results = await cancel(...ids);
    await complete(repository.batches.at(-1), 'locked');
    return results;
  }

  it('is awaited separately and delays no other order of its statement', async () => {
    const results = await cancel(1n, 2n);
    await complete(repository.batches[0], (id) => (id === 1n ? 'locked' : 'pending'));
    expect(results).toEqual(['open', 'pending']);
    expect(repository.waitIds).toEqual([[1n]]);
    repository.waits[0]?.complete('shipped');
    await turn();
    expect(results).toEqual(['shipped', 'pending']);
    expect(await metric('petstore_cancel_lock_waits_total')).toBe(1);
  });

  it('is awaited once for all its cancels, and only the first one gets the status pending', async () => {
    const results = [...(await cancelLocked(1n, 1n)), ...(await cancelLocked(1n))];
    expect(results).toEqual(['open', 'open', 'open']);
    const [first, later] = [await cancelLocked(2n, 2n), await cancelLocked(2n)];
    expect(repository.waitIds).toEqual([[1n], [2n]]);
    repository.waits[1]?.complete('pending');
    await turn();
    expect([...first, ...later]).toEqual(['pending', 'cancelled', 'cancelled']);
    expect(await metric('petstore_cancel_lock_waits_total')).toBe(6);
  });

  it('is awaited again for a cancel that arrives after the wait has failed', async () => {
    await cancelLocked(1n);
    await fail(repository.waits[0], LOCK_TIMEOUT);
    const results = await cancelLocked(1n);
    expect(repository.waits).toHaveLength(2);
    repository.waits[1]?.complete('pending');
    await turn();
    expect(results).toEqual(['pending']);
  });

  it('fails with the error of its statement when the lock is not released in time', async () => {
    const error = batcher.cancel(1n).catch((reason: unknown) => reason);
    await turn();
    await complete(repository.batches[0], 'locked');
    repository.waits[0]?.fail(LOCK_TIMEOUT);
    expect(await error).toBe(LOCK_TIMEOUT);
  });

  it('is awaited with at most two others; the next wait starts when one of them ends', async () => {
    const results = await cancelLocked(1n, 2n, 3n, 4n);
    expect(repository.waitIds).toEqual([[1n], [2n], [3n]]);
    await fail(repository.waits[1], UNAVAILABLE);
    expect(repository.waitIds).toEqual([[1n], [2n], [3n], [4n]]);
    repository.waits[3]?.complete('pending');
    await turn();
    expect(results).toEqual(['open', 'service_unavailable', 'open', 'pending']);
  });

  it('fails with 503 when no slot for waiting is free within the lock timeout, and occupies none afterwards', async () => {
    const results = await cancelLocked(1n, 2n, 3n, 4n);
    const error = batcher.cancel(9n).catch((reason: unknown) => reason);
    await turn();
    await complete(repository.batches.at(-1), 'locked');
    await jest.advanceTimersByTimeAsync(LOCK_TIMEOUT_MS - 1);
    expect(results).toEqual(['open', 'open', 'open', 'open']);
    await jest.advanceTimersByTimeAsync(1);
    expect(results).toEqual(['open', 'open', 'open', 'service_unavailable']);
    expect(await error).toMatchObject({
      code: 'service_unavailable',
      message: 'The order is locked by another transaction; retry shortly.',
    });
    repository.waits.forEach((statement) => {
      statement.complete('pending');
    });
    await turn();
    // Exactly three slots are free again.
    await cancelLocked(5n, 6n, 7n, 8n);
    expect(repository.waitIds).toEqual([[1n], [2n], [3n], [5n], [6n], [7n]]);
  });
});
