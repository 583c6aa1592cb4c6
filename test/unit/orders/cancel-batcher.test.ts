import type { Config } from '../../../src/config/config.js';
import { loadConfig } from '../../../src/config/load-config.js';
import { DomainError } from '../../../src/errors/domain-error.js';
import { Metrics } from '../../../src/metrics/metrics.js';
import { CancelBatcher } from '../../../src/orders/cancel-batcher.js';
import type { CancelOutcome } from '../../../src/orders/cancellation.js';
import type { CancelAttempt, OrdersRepository } from '../../../src/orders/orders.repository.js';

const LOCK_TIMEOUT_MS = 1_000;

/** A statement that has been sent and is answered when the test says so. */
interface Statement<T> {
  readonly ids: readonly bigint[];
  readonly response: (outcome: T) => void;
  readonly fail: (error: Error) => void;
}

/** Orders whose statements stay open until the test ends them. */
class FakeRepository {
  readonly together: Statement<Map<bigint, CancelAttempt>>[] = [];
  readonly alone: Statement<CancelOutcome>[] = [];

  cancelUnlocked(ids: readonly bigint[]): Promise<Map<bigint, CancelAttempt>> {
    return new Promise((response, fail) => this.together.push({ ids, response, fail }));
  }

  cancelWaiting(id: bigint): Promise<CancelOutcome> {
    return new Promise((response, fail) => this.alone.push({ ids: [id], response, fail }));
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

/** Asks for cancels in one turn of the event loop; what has become of them stands in the list. */
async function cancel(...ids: bigint[]): Promise<string[]> {
  const outcomes = ids.map(() => 'open');
  ids.forEach((id, index) => {
    batcher.cancel(id).then(
      (outcome) => (outcomes[index] = outcome),
      (error: unknown) => (outcomes[index] = error instanceof DomainError ? error.code : String(error)),
    );
  });
  await turn();
  return outcomes;
}

/** Answers a statement for each of its orders. */
async function response(
  statement: Statement<Map<bigint, CancelAttempt>> | undefined,
  attempt: CancelAttempt | ((id: bigint) => CancelAttempt) = 'cancelled',
): Promise<void> {
  const attempts = statement?.ids.map((id) => [id, typeof attempt === 'string' ? attempt : attempt(id)] as const);
  statement?.response(new Map(attempts));
  await turn();
}

async function valueOf(name: string): Promise<number | undefined> {
  const metric = (await metrics.registry.getMetricsAsJSON()).find((each) => each.name === name);
  return metric?.values.find((each) => !('metricName' in each) || each.metricName === `${name}_sum`)?.value;
}

describe('cancels that are asked for together', () => {
  it('share a statement, and each is told what became of its order', async () => {
    const outcomes = await cancel(1n, 2n, 3n, 4n);
    expect(repository.together.map(({ ids }) => ids)).toEqual([[1n, 2n, 3n, 4n]]);
    repository.together[0]?.response(
      new Map<bigint, CancelAttempt>([
        [3n, 'already_shipped'],
        [2n, 'already_cancelled'],
        [1n, 'cancelled'],
      ]),
    );
    await turn();
    expect(outcomes).toEqual(['cancelled', 'already_cancelled', 'already_shipped', 'not_found']);
    expect(await valueOf('petstore_cancel_batch_size')).toBe(4);
  });

  it('name an order once, and only the first who wanted it is told of having cancelled it', async () => {
    const outcomes = await cancel(1n, 2n, 1n, 2n, 1n);
    expect(repository.together.map(({ ids }) => ids)).toEqual([[1n, 2n]]);
    await response(repository.together[0], (id) => (id === 1n ? 'cancelled' : 'already_shipped'));
    expect(outcomes).toEqual([
      'cancelled',
      'already_shipped',
      'already_cancelled',
      'already_shipped',
      'already_cancelled',
    ]);
  });

  it('are 500 in a statement at most', async () => {
    await cancel(...Array.from({ length: 501 }, (_, index) => BigInt(index)));
    expect(repository.together.map(({ ids }) => ids.length)).toEqual([500, 1]);
  });
});

describe('cancels that come while two statements are running', () => {
  it('gather, and go together when one of them has ended', async () => {
    const [first] = [await cancel(1n), await cancel(2n)];
    const gathered = [await cancel(3n), await cancel(4n)];
    expect(repository.together.map(({ ids }) => ids)).toEqual([[1n], [2n]]);
    await response(repository.together[0]);
    expect(first).toEqual(['cancelled']);
    expect(repository.together.map(({ ids }) => ids)).toEqual([[1n], [2n], [3n, 4n]]);
    await response(repository.together[2]);
    expect(gathered).toEqual([['cancelled'], ['cancelled']]);
  });

  it('go also when one of them has failed, which is told to those who shared it alone', async () => {
    const failing = await cancel(1n, 2n);
    await cancel(3n);
    const gathered = await cancel(4n);
    repository.together[0]?.fail(new DomainError('service_unavailable', 'The database is away.'));
    await turn();
    expect(failing).toEqual(['service_unavailable', 'service_unavailable']);
    await response(repository.together[2]);
    expect(gathered).toEqual(['cancelled']);
  });
});

describe('an order that somebody else holds', () => {
  const NOT_LET_GO = new DomainError('service_unavailable', 'The lock timeout has passed.');

  /** Asks for cancels of orders that are held. */
  async function cancelHeld(...ids: bigint[]): Promise<string[]> {
    const outcomes = await cancel(...ids);
    await response(repository.together.at(-1), 'locked');
    return outcomes;
  }

  it('is waited for apart, and holds up none of those who shared the statement', async () => {
    const outcomes = await cancel(1n, 2n);
    await response(repository.together[0], (id) => (id === 1n ? 'locked' : 'cancelled'));
    expect(outcomes).toEqual(['open', 'cancelled']);
    expect(repository.alone.map(({ ids }) => ids)).toEqual([[1n]]);
    repository.alone[0]?.response('already_shipped');
    await turn();
    expect(outcomes).toEqual(['already_shipped', 'cancelled']);
    expect(await valueOf('petstore_cancel_lock_waits_total')).toBe(1);
  });

  it('is waited for once, and only the first who wanted it is told of having cancelled it', async () => {
    const outcomes = [...(await cancelHeld(1n, 1n)), ...(await cancelHeld(1n))];
    expect(outcomes).toEqual(['open', 'open', 'open']);
    const [first, later] = [await cancelHeld(2n, 2n), await cancelHeld(2n)];
    expect(repository.alone.map(({ ids }) => ids)).toEqual([[1n], [2n]]);
    repository.alone[1]?.response('cancelled');
    await turn();
    expect([...first, ...later]).toEqual(['cancelled', 'already_cancelled', 'already_cancelled']);
    expect(await valueOf('petstore_cancel_lock_waits_total')).toBe(6);
  });

  it('is waited for anew by who comes when the wait is over', async () => {
    await cancelHeld(1n);
    repository.alone[0]?.fail(NOT_LET_GO);
    await turn();
    const outcomes = await cancelHeld(1n);
    expect(repository.alone).toHaveLength(2);
    repository.alone[1]?.response('cancelled');
    await turn();
    expect(outcomes).toEqual(['cancelled']);
  });

  it('and is not let go in time fails as its statement does', async () => {
    const outcome = batcher.cancel(1n).catch((error: unknown) => error);
    await turn();
    await response(repository.together[0], 'locked');
    repository.alone[0]?.fail(NOT_LET_GO);
    expect(await outcome).toBe(NOT_LET_GO);
  });

  it('is one of three that are waited for at once; the next has its turn when one of them is over', async () => {
    const outcomes = await cancelHeld(1n, 2n, 3n, 4n);
    expect(repository.alone.map(({ ids }) => ids)).toEqual([[1n], [2n], [3n]]);
    repository.alone[1]?.fail(new DomainError('service_unavailable', 'The database is away.'));
    await turn();
    expect(repository.alone.map(({ ids }) => ids)).toEqual([[1n], [2n], [3n], [4n]]);
    repository.alone[3]?.response('cancelled');
    await turn();
    expect(outcomes).toEqual(['open', 'service_unavailable', 'open', 'cancelled']);
  });

  it('is 503 when its turn to be waited for does not come in time, and takes no place from anybody', async () => {
    const outcomes = await cancelHeld(1n, 2n, 3n, 4n);
    const error = batcher.cancel(9n).catch((reason: unknown) => reason);
    await turn();
    await response(repository.together.at(-1), 'locked');
    await jest.advanceTimersByTimeAsync(LOCK_TIMEOUT_MS - 1);
    expect(outcomes).toEqual(['open', 'open', 'open', 'open']);
    await jest.advanceTimersByTimeAsync(1);
    expect(outcomes).toEqual(['open', 'open', 'open', 'service_unavailable']);
    expect(await error).toMatchObject({
      code: 'service_unavailable',
      message: 'The order is being changed by somebody else; try again in a moment.',
    });
    repository.alone.forEach((statement) => statement.response('cancelled'));
    await turn();
    // Three places are free again, and no more.
    await cancelHeld(5n, 6n, 7n, 8n);
    expect(repository.alone.map(({ ids }) => ids)).toEqual([[1n], [2n], [3n], [5n], [6n], [7n]]);
  });
});
