import type pg from 'pg';
import { untilLockWaits } from '../helpers/lock-waits.js';
import { cancelOrder, errorOf } from '../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { withSeed } from '../helpers/seeded-random.js';
import { startTestService, type TestService } from '../helpers/test-service.js';

const PATIENT = { environment: { CANCEL_LOCK_TIMEOUT_MS: '15000' } };

let service: TestService;
let key: string;
let session: pg.PoolClient;
beforeEach(async () => {
  service = await startTestService(PATIENT);
  ({ key } = await insertKey(service.db));
  session = await service.db.connect();
});
afterEach(async () => {
  session.release();
  await service.stop();
});

async function outcome(id: string, baseUrl = service.baseUrl): Promise<string> {
  const response = await cancelOrder(baseUrl, id, key);
  return response.status === 204 ? '204' : `${response.status} ${(await errorOf(response)).code}`;
}

/** The outcome of a cancel that waits for an order while another transaction changes it. */
async function outcomeBeside(id: string, statements: readonly string[]): Promise<string> {
  await session.query('BEGIN');
  for (const statement of statements) {
    await session.query(statement, [id]);
  }
  const result = outcome(id);
  await untilLockWaits(service.db);
  await session.query('COMMIT');
  return result;
}

/** Partitions the orders by quantity, which a writer can change. */
async function partitionOrders(): Promise<void> {
  await service.db.query(`
    ALTER TABLE orders RENAME TO orders_before;
    CREATE TABLE orders (LIKE orders_before INCLUDING DEFAULTS INCLUDING CONSTRAINTS) PARTITION BY LIST (quantity);
    CREATE TABLE orders_1 PARTITION OF orders FOR VALUES IN (1);
    CREATE TABLE orders_2 PARTITION OF orders FOR VALUES IN (2);
    CREATE INDEX ON orders (id);
    INSERT INTO orders SELECT * FROM orders_before`);
}

const DELETE = 'DELETE FROM orders WHERE id = $1';
const STATUS = 'SELECT status::text FROM orders WHERE id = $1';
const MOVE = 'UPDATE orders SET quantity = 3 - quantity WHERE id = $1';
const insertAs = (status: string): string =>
  `INSERT INTO orders (id, pet_id, quantity, status) VALUES ($1, 1, 1, '${status}')`;

describe('a cancel that waits for an order', () => {
  it.each([
    ['deletes it and inserts a pending order with its id', [DELETE, insertAs('pending')], '204', 'cancelled'],
    ['deletes it and inserts a shipped one', [DELETE, insertAs('shipped')], '409 order_already_shipped', 'shipped'],
  ])('returns the result of the new order when the other transaction %s', async (_what, changes, expected, status) => {
    const id = await insertOrder(service.db);
    expect(await outcomeBeside(id, changes)).toBe(expected);
    expect(await statusOf(service.db, id)).toBe(status);
  });

  it('returns 204 when the other transaction moves the order to another partition', async () => {
    await partitionOrders();
    const id = await insertOrder(service.db);
    expect(await outcomeBeside(id, [MOVE])).toBe('204');
    expect(await statusOf(service.db, id)).toBe('cancelled');
    expect(await outcome(id)).toBe('409 order_already_cancelled');
  });
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
    const others = await Promise.all(ids.map(() => insertOrder(service.db)));
    const together = await Promise.all([...ids, ...others].map((id) => outcome(id)));
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
    expect(await outcomeBeside(pending, ['SELECT FROM orders WHERE id = $1 FOR UPDATE'])).toBe('204');
    expect(await outcomeBeside(shipped, ["UPDATE orders SET status = 'pending' WHERE id = $1"])).toBe('204');
    expect(await outcomeBeside(await insertOrder(service.db), [DELETE])).toBe('404 order_not_found');
    await service.db.query('DROP RULE audit ON orders');
    expect(await outcomes()).toEqual(EXPECTED);
  });
});

describe('with a rule that replaces every update', () => {
  it('returns 500 for a pending order, and 409 and 404 for others', async () => {
    await service.db.query('CREATE RULE nothing AS ON UPDATE TO orders DO INSTEAD NOTHING');
    const [pending, shipped] = [await insertOrder(service.db), await insertOrder(service.db, { status: 'shipped' })];
    expect(await outcome(pending)).toBe('500 internal_error');
    expect(await outcome(shipped)).toBe('409 order_already_shipped');
    expect(await outcome('404404')).toBe('404 order_not_found');
  });
});

describe('cancels after the type of a column has changed', () => {
  it('return the same results, with statements that were prepared before', async () => {
    const ids = await Promise.all(Array.from({ length: 40 }, () => insertOrder(service.db)));
    await Promise.all(ids.slice(0, 20).map((id) => outcome(id)));
    await service.db.query('ALTER TABLE orders DISABLE TRIGGER USER');
    const { rows } = await service.db.query<{ name: string }>(
      "SELECT tgname AS name FROM pg_trigger WHERE tgrelid = 'orders'::regclass AND NOT tgisinternal",
    );
    for (const { name } of rows) {
      await service.db.query(`DROP TRIGGER "${name}" ON orders`);
    }
    await service.db.query('ALTER TABLE orders ALTER COLUMN id TYPE integer');
    const results = await Promise.all(ids.map((id) => outcome(id)));
    expect(new Set(results.slice(0, 20))).toEqual(new Set(['409 order_already_cancelled']));
    expect(new Set(results.slice(20))).toEqual(new Set(['204']));
  });
});

describe('two replicas and random transactions that lock, ship, replace and move the same orders', () => {
  const ORDERS = 6;
  const CANCELS = 600;
  const FINALS = new Set(['204', '409 order_already_cancelled', '409 order_already_shipped']);

  it('return 204 once for each time that an order was cancelled, and never 404 for an order that always existed', async () => {
    await partitionOrders();
    const other = await startTestService({ ...PATIENT, database: service });
    const ids = await Promise.all(Array.from({ length: ORDERS }, () => insertOrder(service.db)));
    const neverShipped = ids[0]!;
    const seen = new Map<string, string[]>(ids.map((id) => [id, []]));
    /** How often each order was found cancelled by the transaction that made it pending again. */
    const cancelled = new Map<string, number>(ids.map((id) => [id, 0]));
    const found = (id: string): void => void cancelled.set(id, cancelled.get(id)! + 1);
    let sent = 0;
    let isAborted = false;
    const isDone = (): boolean =>
      sent >= CANCELS && ids.every((id) => id === neverShipped || seen.get(id)!.includes('409 order_already_shipped'));
    const untilDone = async (step: () => Promise<void>): Promise<void> => {
      try {
        while (!isAborted && !isDone()) {
          await step();
        }
      } catch (error) {
        isAborted = true;
        throw error;
      }
    };

    await withSeed(async (random) => {
      const change = async (client: pg.PoolClient): Promise<void> => {
        const id = random.pick(ids);
        const { rows } = await client.query<{ status: string }>(`${STATUS} FOR UPDATE`, [id]);
        const next = id === neverShipped ? 'pending' : random.pick(['pending', 'pending', 'shipped']);
        const update = `UPDATE orders SET status = '${next}', cancelled_at = NULL`;
        const changes = random.pick([
          [DELETE, insertAs(next)],
          [`${update} WHERE id = $1`],
          [`${update}, quantity = 3 - quantity WHERE id = $1`],
        ]);
        for (const statement of changes) {
          await client.query(statement, [id]);
        }
        const commits = rows.length === 1 && random.chance(0.8);
        await client.query(commits ? 'COMMIT' : 'ROLLBACK');
        if (commits && rows[0]?.status === 'cancelled') {
          found(id);
        }
      };
      const writers = Array.from({ length: 2 }, () =>
        untilDone(async () => {
          const client = await service.db.connect();
          try {
            await client.query('BEGIN');
            await change(client);
          } catch (error) {
            await client.query('ROLLBACK');
            // The other writer has moved the row.
            if ((error as { code?: string }).code !== '40001') {
              throw error;
            }
          } finally {
            client.release();
          }
        }),
      );
      const callers = Array.from({ length: 16 }, (_, caller) =>
        untilDone(async () => {
          const id = random.pick(ids);
          sent++;
          seen.get(id)!.push(await outcome(id, caller % 2 === 0 ? service.baseUrl : other.baseUrl));
        }),
      );
      await Promise.all([...writers, ...callers]);
    });
    await other.stop();
    for (const id of ids) {
      if ((await statusOf(service.db, id)) === 'cancelled') {
        found(id);
      }
      const outcomes = seen.get(id)!;
      expect(outcomes.filter((each) => each === '204')).toHaveLength(cancelled.get(id)!);
      // A row that moves twice meanwhile is a 503.
      expect(outcomes.filter((each) => !FINALS.has(each) && each !== '503 service_unavailable')).toEqual([]);
      expect(new Set(outcomes).has('409 order_already_shipped')).toBe(id !== neverShipped);
    }
    const all = [...seen.values()].flat();
    expect(all.filter((each) => each === '503 service_unavailable').length).toBeLessThan(all.length / 10);
  });
});
