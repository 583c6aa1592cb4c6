import type pg from 'pg';
import { CancelBatcher } from '../../src/orders/cancel-batcher.js';
import { OrdersRepository } from '../../src/orders/orders.repository.js';
import { Pools } from '../../src/database/pools.js';
import { lockOrder, untilLockWaits } from '../helpers/lock-waits.js';
import { cancelOrder, errorOf } from '../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { expectLimitHeaders } from '../helpers/limit-headers.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

/** Its lock timeout is longer than any test holds a lock. */
let patient: TestService;
/** Its lock timeout is short. */
let impatient: TestService;
let key: string;
let session: pg.PoolClient;
let untouched: string;

beforeAll(async () => {
  patient = await startTestService({ environment: { CANCEL_LOCK_TIMEOUT_MS: '15000' } });
  impatient = await startTestService({ database: patient, environment: { CANCEL_LOCK_TIMEOUT_MS: '400' } });
  ({ key } = await insertKey(patient.db));
});
beforeEach(async () => {
  untouched = await insertOrder(patient.db);
  session = await patient.db.connect();
  await session.query('BEGIN');
});
afterEach(async () => {
  await session.query('ROLLBACK');
  session.release();
  // eslint-disable-next-line jest/no-standalone-expect -- holds after every test of this file
  expect(await statusOf(patient.db, untouched)).toBe('pending');
});
afterAll(async () => {
  await impatient.stop();
  await patient.stop();
});

async function outcome(service: TestService, id: string, by = key): Promise<string> {
  const response = await cancelOrder(service.baseUrl, id, by);
  return response.status === 204 ? '204' : `${response.status} ${(await errorOf(response)).code}`;
}

function lock(ids: readonly string[]): Promise<unknown> {
  return session.query('SELECT FROM orders WHERE id = ANY($1) FOR UPDATE', [ids]);
}

function untilWaiting(): Promise<void> {
  return untilLockWaits(patient.db);
}

function insertOrders(count: number): Promise<string[]> {
  return Promise.all(Array.from({ length: count }, () => insertOrder(patient.db)));
}

describe('a cancel of an order that another transaction has locked', () => {
  const SHIP = "UPDATE orders SET status = 'shipped' WHERE id = $1";
  const CANCEL = "UPDATE orders SET status = 'cancelled', cancelled_at = now() WHERE id = $1";
  const DELETE = 'DELETE FROM orders WHERE id = $1';

  it.each([
    ['ships the order and commits', SHIP, 'COMMIT', '409 order_already_shipped', 'shipped'],
    ['cancels the order and commits', CANCEL, 'COMMIT', '409 order_already_cancelled', 'cancelled'],
    ['deletes the order and commits', DELETE, 'COMMIT', '404 order_not_found', undefined],
    ['changes the quantity and commits', 'UPDATE orders SET quantity = 99 WHERE id = $1', 'COMMIT', '204', 'cancelled'],
    ['holds a shared lock and commits', 'SELECT FROM orders WHERE id = $1 FOR SHARE', 'COMMIT', '204', 'cancelled'],
    ['ships the order and rolls back', SHIP, 'ROLLBACK', '204', 'cancelled'],
    ['deletes the order and rolls back', DELETE, 'ROLLBACK', '204', 'cancelled'],
  ])(
    'waits, and returns the result of the final state when the other transaction %s',
    async (_what, hold, end, expected, status) => {
      const id = await insertOrder(patient.db);
      await session.query(hold, [id]);
      const result = outcome(patient, id);
      await untilWaiting();
      await session.query(end);
      expect(await result).toBe(expected);
      expect(await statusOf(patient.db, id)).toBe(status);
    },
  );

  it('returns 204 when the other transaction makes a shipped order pending again', async () => {
    const id = await insertOrder(patient.db, { status: 'shipped' });
    await session.query("UPDATE orders SET status = 'pending' WHERE id = $1", [id]);
    const result = outcome(patient, id);
    await untilWaiting();
    await session.query('COMMIT');
    expect(await result).toBe('204');
    expect(await statusOf(patient.db, id)).toBe('cancelled');
  });

  it('returns 503 with a reason and changes nothing when the lock outlasts CANCEL_LOCK_TIMEOUT_MS', async () => {
    const id = await insertOrder(patient.db);
    await lock([id]);
    const response = await cancelOrder(impatient.baseUrl, id, key);
    expect(response.status).toBe(503);
    expect(response.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
    expectLimitHeaders(response.headers);
    expect(await errorOf(response)).toEqual({
      code: 'service_unavailable',
      message: 'The order is locked by another transaction; retry shortly.',
      status: 503,
    });
    await session.query('ROLLBACK');
    expect(await statusOf(patient.db, id)).toBe('pending');
    expect(await outcome(impatient, id)).toBe('204');
  });

  it('has CANCEL_LOCK_TIMEOUT_MS as its lock timeout, and a longer statement timeout', async () => {
    const { rows } = await patient.app
      .get(Pools)
      .main.query<{ name: string; setting: string }>(
        "SELECT name, setting FROM pg_settings WHERE name IN ('lock_timeout', 'statement_timeout') ORDER BY name",
      );
    const [lockTimeout, statementTimeout] = rows.map(({ setting }) => Number(setting));
    expect(lockTimeout).toBe(15_000);
    expect(statementTimeout).toBeGreaterThan(15_000);
  });

  it('returns 503 when the whole table stays locked', async () => {
    const id = await insertOrder(patient.db);
    await session.query('LOCK TABLE orders IN ACCESS EXCLUSIVE MODE');
    expect(await outcome(impatient, id)).toBe('503 service_unavailable');
  });

  it('does not delay cancels of other orders, including those in its batch', async () => {
    const [id, ...others] = await insertOrders(41);
    await lock([id!]);
    const repository = patient.app.get(OrdersRepository);
    const cancels = jest.spyOn(patient.app.get(CancelBatcher), 'cancel');
    const cancelUnlocked = repository.cancelUnlocked.bind(repository);
    // The first statements wait until all cancels have arrived: the next one takes all the others.
    const statements = jest.spyOn(repository, 'cancelUnlocked').mockImplementation(async (batch) => {
      await waitFor(() => cancels.mock.calls.length === others.length + 2, 'all cancels have arrived');
      return cancelUnlocked(batch);
    });
    try {
      const callers = [...others.slice(0, 20), id!, ...others.slice(20), '404404'];
      const results = new Map(callers.map((caller) => [caller, outcome(patient, caller)]));
      const outcomes = await Promise.all([...others, '404404'].map((caller) => results.get(caller)!));
      expect(new Set(outcomes.slice(0, -1))).toEqual(new Set(['204']));
      expect(outcomes.at(-1)).toBe('404 order_not_found');
      expect(statements.mock.calls.some(([batch]) => batch.length > 20 && batch.includes(BigInt(id!)))).toBe(true);
      expect(await statusOf(patient.db, id!)).toBe('pending');
      await session.query('ROLLBACK');
      expect(await results.get(id!)!).toBe('204');
    } finally {
      jest.restoreAllMocks();
    }
  });
});

describe('fifty concurrent cancels', () => {
  it.each([
    ['one locked order', 1, { '204': 1, '409 order_already_cancelled': 49 }],
    ['fifty locked orders', 50, { '204': 50 }],
  ])('of %s delay no other order, and have their results after the release', async (_what, count, expected) => {
    const ids = await insertOrders(count);
    const others = await insertOrders(20);
    await lock(ids);
    const held = Array.from({ length: 50 }, (_, caller) => outcome(patient, ids[caller % count]!));
    await untilWaiting();
    expect(new Set(await Promise.all(others.map((other) => outcome(patient, other))))).toEqual(new Set(['204']));
    await session.query('ROLLBACK');
    const counts: Record<string, number> = {};
    for (const each of await Promise.all(held)) {
      counts[each] = (counts[each] ?? 0) + 1;
    }
    expect(counts).toEqual(expected);
  });

  it('of fifty orders that stay locked return 503 within two lock timeouts and change nothing', async () => {
    const ids = await insertOrders(50);
    await lock(ids);
    const start = performance.now();
    const outcomes = await Promise.all(ids.map((id) => outcome(impatient, id)));
    // The wait for a slot and the wait for the lock are each at most 400 ms; fifty waits in threes would take 6.8 s.
    expect(performance.now() - start).toBeLessThan(5_000);
    expect(new Set(outcomes)).toEqual(new Set(['503 service_unavailable']));
    const { rows } = await session.query('SELECT DISTINCT status::text FROM orders WHERE id = ANY($1)', [ids]);
    expect(rows).toEqual([{ status: 'pending' }]);
    await session.query('ROLLBACK');
    expect(new Set(await Promise.all(ids.map((id) => outcome(impatient, id))))).toEqual(new Set(['204']));
  });

  it('of one order that stays locked return 503; a later cancel waits for the lock again', async () => {
    const id = await insertOrder(patient.db);
    await lock([id]);
    const outcomes = await Promise.all(Array.from({ length: 50 }, () => outcome(impatient, id)));
    expect(new Set(outcomes)).toEqual(new Set(['503 service_unavailable']));
    await session.query('ROLLBACK');
    expect(await outcome(impatient, id)).toBe('204');
    expect(await outcome(impatient, id)).toBe('409 order_already_cancelled');
  });
});

describe('a cancel that waits while another key waits for more locked orders than there are slots', () => {
  it('waits next, and returns 204 when its order is released', async () => {
    const [ids, [id]] = [await insertOrders(30), await insertOrders(1)];
    const other = await insertKey(patient.db);
    await lock(ids);
    const release = await lockOrder(patient.db, id!);
    const held = ids.map((each) => outcome(impatient, each));
    await untilWaiting();
    const result = outcome(impatient, id!, other.key);
    expect(await Promise.race(held)).toBe('503 service_unavailable');
    await release();
    expect(await result).toBe('204');
    expect(new Set(await Promise.all(held))).toEqual(new Set(['503 service_unavailable']));
  });
});
