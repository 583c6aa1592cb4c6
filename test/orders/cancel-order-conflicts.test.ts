import { openTransaction, untilLockWaits } from '../helpers/lock-waits.js';
import { outcomeOfCancel } from '../helpers/api.js';
import { insertKey, insertOrder, insertOrders, statusOf } from '../helpers/builders.js';
import { partitionOrders } from '../helpers/partition-orders.js';
import { startTestService, type TestService } from '../helpers/test-service.js';

let service: TestService;
let key: string;
beforeEach(async () => {
  service = await startTestService({ environment: { CANCEL_LOCK_TIMEOUT_MS: '15000' } });
  ({ key } = await insertKey(service.db));
});
afterEach(() => service.stop());

function outcome(id: string): Promise<string> {
  return outcomeOfCancel(service.baseUrl, id, key);
}

/** The outcome of a cancel that waits for an order while another transaction changes it. */
async function outcomeBeside(id: string, statement: string): Promise<string> {
  const endTransaction = await openTransaction(service.db, statement, [id]);
  const result = outcome(id);
  await untilLockWaits(service.db);
  await endTransaction('COMMIT');
  return result;
}

it('a cancel that waits returns 204 when the other transaction moves the order to another partition', async () => {
  await partitionOrders(service.db);
  const id = await insertOrder(service.db);
  expect(await outcomeBeside(id, 'UPDATE orders SET quantity = quantity + 1 WHERE id = $1')).toBe('204');
  expect(await statusOf(service.db, id)).toBe('cancelled');
  expect(await outcome(id)).toBe('409 order_already_cancelled');
});

describe('with a DO ALSO rule on orders that is created while the service runs', () => {
  async function outcomes(): Promise<string[]> {
    const ids = [
      await insertOrder(service.db),
      await insertOrder(service.db, { status: 'shipped' }),
      await insertOrder(service.db, { status: 'cancelled' }),
      '404404',
    ];
    const alone = [];
    for (const id of ids) {
      alone.push(await outcome(id));
    }
    const others = await insertOrders(service.db, ids.length);
    const together = await Promise.all([...ids, ...others].map(outcome));
    expect(await statusOf(service.db, ids[0]!)).toBe('cancelled');
    return [...alone, ...together];
  }

  const FINAL = ['409 order_already_shipped', '409 order_already_cancelled', '404 order_not_found'];
  const EXPECTED = ['204', ...FINAL, '409 order_already_cancelled', ...FINAL, '204', '204', '204', '204'];

  it('returns the same results as before and after it, alone and in a batch, and waits for locked orders', async () => {
    expect(await outcomes()).toEqual(EXPECTED);
    await service.db.query(`
      CREATE TABLE audit (id bigint);
      CREATE RULE audit AS ON UPDATE TO orders DO ALSO INSERT INTO audit VALUES (OLD.id)`);
    expect(await outcomes()).toEqual(EXPECTED);
    const [pending, shipped] = [await insertOrder(service.db), await insertOrder(service.db, { status: 'shipped' })];
    expect(await outcomeBeside(pending, 'SELECT FROM orders WHERE id = $1 FOR UPDATE')).toBe('204');
    expect(await outcomeBeside(shipped, "UPDATE orders SET status = 'pending' WHERE id = $1")).toBe('204');
    const deleted = await outcomeBeside(await insertOrder(service.db), 'DELETE FROM orders WHERE id = $1');
    expect(deleted).toBe('404 order_not_found');
    await service.db.query('DROP RULE audit ON orders');
    expect(await outcomes()).toEqual(EXPECTED);
  });
});

it('with a rule that replaces every update, a cancel returns 500', async () => {
  await service.db.query('CREATE RULE nothing AS ON UPDATE TO orders DO INSTEAD NOTHING');
  expect(await outcome(await insertOrder(service.db))).toBe('500 internal_error');
});

it('cancels return the same results, with statements prepared before, after the type of a column has changed', async () => {
  const ids = await insertOrders(service.db, 40);
  await Promise.all(ids.slice(0, 20).map(outcome));
  await service.db.query(`
    DROP TRIGGER orders_note_insert ON orders;
    DROP TRIGGER orders_note_update ON orders;
    DROP TRIGGER orders_note_delete ON orders;
    ALTER TABLE orders ALTER COLUMN id TYPE integer`);
  const results = await Promise.all(ids.map(outcome));
  expect(new Set(results.slice(0, 20))).toEqual(new Set(['409 order_already_cancelled']));
  expect(new Set(results.slice(20))).toEqual(new Set(['204']));
});
