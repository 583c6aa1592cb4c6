import type pg from 'pg';
import { cancelOrder, errorOf, outcomeOfCancel } from '../helpers/api.js';
import { insertKey, insertOrder, insertOrders, type OrderRow, statusOf } from '../helpers/builders.js';
import { lockOrder, lockWaits, untilLockWaits } from '../helpers/lock-waits.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

/** Its lock timeout is longer than any test holds a lock. */
let patient: TestService;
/** Its lock timeout is short. */
let impatient: TestService;
let key: string;
/** Another transaction. */
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
  expect(await statusOf(patient.db, untouched)).toBe('pending');
});
afterAll(async () => {
  await impatient.stop();
  await patient.stop();
});

const SHIP = "UPDATE orders SET status = 'shipped' WHERE id = $id";
const CANCEL = "UPDATE orders SET status = 'cancelled', cancelled_at = now() WHERE id = $id";
const UNSHIP = "UPDATE orders SET status = 'pending' WHERE id = $id";
const DELETE = 'DELETE FROM orders WHERE id = $id';
const CHANGE = 'UPDATE orders SET quantity = 99 WHERE id = $id';

it.each<[string, string, string, string, string | undefined, OrderRow['status']?]>([
  ['ships the order and commits', SHIP, 'COMMIT', '409 order_already_shipped', 'shipped'],
  ['cancels the order and commits', CANCEL, 'COMMIT', '409 order_already_cancelled', 'cancelled'],
  ['deletes the order and commits', DELETE, 'COMMIT', '404 order_not_found', undefined],
  ['changes the quantity and commits', CHANGE, 'COMMIT', '204', 'cancelled'],
  ['ships the order and rolls back', SHIP, 'ROLLBACK', '204', 'cancelled'],
  ['makes the shipped order pending and commits', UNSHIP, 'COMMIT', '204', 'cancelled', 'shipped'],
])(
  'another transaction %s: the cancel waits, and returns the result of the final state',
  async (_what, statement, end, expected, status, before = 'pending') => {
    const id = await insertOrder(patient.db, { status: before });
    await session.query(statement.replace('$id', id));
    const result = outcomeOfCancel(patient.baseUrl, id, key);
    await untilLockWaits(patient.db);
    await session.query(end);
    expect(await result).toBe(expected);
    expect(await statusOf(patient.db, id)).toBe(status);
  },
);

it('the row stays locked for CANCEL_LOCK_TIMEOUT_MS: 503 with the reason, and nothing changes', async () => {
  const id = await insertOrder(patient.db);
  await session.query('SELECT FROM orders WHERE id = $1 FOR UPDATE', [id]);
  const response = await cancelOrder(impatient.baseUrl, id, key);
  expect(response.status).toBe(503);
  expect(await errorOf(response)).toEqual({
    code: 'service_unavailable',
    message: 'The order is locked by another transaction; retry shortly.',
    status: 503,
  });
  await session.query('ROLLBACK');
  expect(await statusOf(patient.db, id)).toBe('pending');
  expect(await outcomeOfCancel(impatient.baseUrl, id, key)).toBe('204');
});

it('the whole table stays locked for CANCEL_LOCK_TIMEOUT_MS: 503', async () => {
  const id = await insertOrder(patient.db);
  await session.query('LOCK TABLE orders IN ACCESS EXCLUSIVE MODE');
  expect(await outcomeOfCancel(impatient.baseUrl, id, key)).toBe('503 service_unavailable');
});

/** Inserts orders, and locks them. */
async function lockedOrders(count: number): Promise<string[]> {
  const ids = await insertOrders(patient.db, count);
  await session.query('SELECT FROM orders WHERE id = ANY ($1) FOR UPDATE', [ids]);
  return ids;
}

it('a key cancels more locked orders than its share: the cancel of another key waits beside two of them', async () => {
  const { db, baseUrl, app } = patient;
  const { key: other } = await insertKey(db);
  const id = await insertOrder(db);
  const unlock = await lockOrder(db, id);
  const ids = await lockedOrders(4);
  const locked = async (): Promise<number> => (await ServiceMetrics.of(app)).sum('petstore_cancel_lock_waits_total');
  const before = await locked();
  const results = Promise.all(ids.map((order) => outcomeOfCancel(baseUrl, order, key)));
  await waitFor(async () => (await locked()) === before + ids.length, 'all orders of the key are found locked');
  const result = outcomeOfCancel(baseUrl, id, other);
  await untilLockWaits(db, 3);
  await unlock();
  expect(await result).toBe('204');
  expect(await lockWaits(db)).toBe(2);
  await session.query('ROLLBACK');
  expect(await results).toEqual(['204', '204', '204', '204']);
});

it('more locked orders than the share of a key stay locked: 503 for each cancel', async () => {
  const ids = await lockedOrders(6);
  const results = await Promise.all(ids.map((id) => outcomeOfCancel(impatient.baseUrl, id, key)));
  expect(new Set(results)).toEqual(new Set(['503 service_unavailable']));
  await session.query('ROLLBACK');
  expect(await Promise.all(ids.map((id) => statusOf(patient.db, id)))).toEqual(ids.map(() => 'pending'));
});
