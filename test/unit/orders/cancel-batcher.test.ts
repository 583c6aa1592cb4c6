import { type Config, loadConfig } from '../../../src/config/config.js';
import { DomainError } from '../../../src/errors/domain-error.js';
import { Metrics } from '../../../src/metrics/metrics.js';
import { CancelBatcher } from '../../../src/orders/cancel-batcher.js';
import type { CancelResult, OrdersRepository } from '../../../src/orders/orders.repository.js';

const LOCK_TIMEOUT_MS = 1_000;
/** The turns of the event loop around the ten steps of a deadline; with fake timers each takes a millisecond. */
const TURNS_MS = 13;

type Results = Map<bigint, CancelResult | undefined>;

/** A statement that has been sent and completes when the test completes it. */
interface Statement<T> {
  readonly ids: readonly bigint[];
  readonly complete: (result: T) => void;
  readonly fail: (error: Error) => void;
}

/** A repository whose statements stay open until the test completes them. */
class FakeRepository {
  readonly batches: Statement<Results>[] = [];
  readonly alone: Statement<CancelResult | undefined>[] = [];

  cancelWithoutWaiting(ids: readonly bigint[]): Promise<Results> {
    return new Promise((complete, fail) => this.batches.push({ ids, complete, fail }));
  }

  cancelWaiting(id: bigint): Promise<CancelResult | undefined> {
    return new Promise((complete, fail) => this.alone.push({ ids: [id], complete, fail }));
  }
}

function idsOf(statements: readonly Statement<never>[]): (readonly bigint[])[] {
  return statements.map(({ ids }) => ids);
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
    batcher.cancel(id, 'a').then(
      (result) => (results[index] = result ?? 'absent'),
      (error: unknown) => (results[index] = error instanceof DomainError ? error.code : String(error)),
    );
  });
  await turn();
  return results;
}

/** Completes a batch with one result for all of its orders. */
async function complete(statement: Statement<Results> | undefined, status: CancelResult = 'cancelled'): Promise<void> {
  statement?.complete(new Map(statement.ids.map((id) => [id, status])));
  await turn();
}

async function fail(statement: { fail(error: Error): void } | undefined, error: Error): Promise<void> {
  statement?.fail(error);
  await turn();
}

it('waits ten seconds for running statements, and a later cancel is not affected', async () => {
  const running = [await cancel(1n), await cancel(2n)];
  const waiting = await cancel(3n);
  await jest.advanceTimersByTimeAsync(9_999);
  expect([running, waiting]).toEqual([[['open'], ['open']], ['open']]);
  await jest.advanceTimersByTimeAsync(TURNS_MS);
  expect(waiting).toEqual(['service_unavailable']);
  const later = await cancel(4n);
  await complete(repository.batches[0]);
  await complete(repository.batches[2]);
  expect([idsOf(repository.batches), later]).toEqual([[[1n], [2n], [4n]], ['cancelled']]);
});

describe('a statement for several orders that fails', () => {
  const timedOut = new DomainError('service_unavailable', 'Timeout.', {
    cause: Object.assign(new Error('statement timeout'), { code: '57014' }),
  });

  it('is repeated until an order times out again, and the remaining orders fail without another wait', async () => {
    const results = await cancel(1n, 2n, 3n, 4n, 5n);
    await fail(repository.batches[0], timedOut);
    // One that fails at once takes no time from the others.
    await fail(repository.batches[1], timedOut);
    await complete(repository.batches[2]);
    await jest.advanceTimersByTimeAsync(LOCK_TIMEOUT_MS);
    await fail(repository.batches[3], timedOut);
    expect(idsOf(repository.batches)).toEqual([[1n, 2n, 3n, 4n, 5n], [1n], [2n], [3n]]);
    const failed = 'service_unavailable';
    expect(results).toEqual([failed, 'cancelled', failed, failed, failed]);
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
});

describe('an order that another transaction has locked', () => {
  /** Cancels orders that are locked. */
  async function cancelLocked(...ids: bigint[]): Promise<string[]> {
    const results = await cancel(...ids);
    await complete(repository.batches.at(-1), 'retry');
    return results;
  }

  it('is awaited again when it was deleted during the wait, and at most three times', async () => {
    const results = await cancelLocked(1n, 2n);
    repository.alone[0]?.complete('retry');
    repository.alone[1]?.complete('retry');
    await turn();
    expect(idsOf(repository.alone)).toEqual([[1n], [2n], [1n], [2n]]);
    repository.alone[2]?.complete(undefined);
    repository.alone[3]?.complete('retry');
    await turn();
    repository.alone[4]?.complete('retry');
    await turn();
    expect(repository.alone).toHaveLength(5);
    expect(results).toEqual(['absent', 'service_unavailable']);
    expect((await metrics.cancelLockWaits.get()).values).toEqual([expect.objectContaining({ value: 2 })]);
  });

  it('is awaited at once while another caller waits for many locked orders, of which two are awaited at a time', async () => {
    await cancelLocked(1n, 2n, 3n, 4n, 5n);
    expect(idsOf(repository.alone)).toEqual([[1n], [2n]]);
    void batcher.cancel(6n, 'b');
    await turn();
    await complete(repository.batches.at(-1), 'retry');
    expect(idsOf(repository.alone)).toEqual([[1n], [2n], [6n]]);
    repository.alone[0]?.complete('cancelled');
    await turn();
    expect(idsOf(repository.alone).slice(3)).toEqual([[3n]]);
  });

  it('fails with 503 when no slot for waiting is free a second after the lock timeout, and occupies none afterwards', async () => {
    const results = await cancelLocked(1n, 2n, 4n);
    const error = batcher.cancel(9n, 'a').catch((reason: unknown) => reason);
    await turn();
    await complete(repository.batches.at(-1), 'retry');
    await jest.advanceTimersByTimeAsync(LOCK_TIMEOUT_MS + 999);
    expect(results).toEqual(['open', 'open', 'open']);
    await jest.advanceTimersByTimeAsync(TURNS_MS);
    expect(results).toEqual(['open', 'open', 'service_unavailable']);
    expect(await error).toMatchObject({
      code: 'service_unavailable',
      message: 'The order is locked by another transaction; retry shortly.',
    });
    repository.alone.forEach((statement) => {
      statement.complete('cancelled');
    });
    await turn();
    // Exactly two of its slots are free again.
    await cancelLocked(5n, 6n, 7n);
    expect(idsOf(repository.alone)).toEqual([[1n], [2n], [5n], [6n]]);
  });
});
