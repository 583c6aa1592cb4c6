import { CancelBatcher } from '../../src/orders/cancel-batcher.js';
import { OrdersRepository } from '../../src/orders/orders.repository.js';
import { Pools } from '../../src/database/pools.js';
import { cancelOrder, errorOf } from '../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

/** Two services on one database, like two replicas. */
let services: readonly [TestService, TestService];
let service: TestService;
let key: string;

beforeAll(async () => {
  service = await startTestService();
  services = [service, await startTestService({ database: service })];
  ({ key } = await insertKey(service.db));
});
afterEach(() => {
  jest.restoreAllMocks();
});
afterAll(async () => {
  await services[1].stop();
  await service.stop();
});

/** The response to a cancel: its status and error code. */
async function outcome(baseUrl: string, id: string): Promise<string> {
  const response = await cancelOrder(baseUrl, id, key);
  return response.status === 204 ? '204' : `${response.status} ${(await errorOf(response)).code}`;
}

function insertOrders(count: number): Promise<string[]> {
  return Promise.all(Array.from({ length: count }, () => insertOrder(service.db)));
}

function tally(outcomes: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const each of outcomes) {
    counts[each] = (counts[each] ?? 0) + 1;
  }
  return counts;
}

describe('concurrent cancels', () => {
  it('of one order on two replicas: one returns 204, the others 409 order_already_cancelled', async () => {
    const [id, other] = [await insertOrder(service.db), await insertOrder(service.db)];
    const outcomes = await Promise.all(
      Array.from({ length: 200 }, (_, caller) => outcome(services[caller % 2]!.baseUrl, id)),
    );
    expect(tally(outcomes)).toEqual({ '204': 1, '409 order_already_cancelled': 199 });
    expect([await statusOf(service.db, id), await statusOf(service.db, other)]).toEqual(['cancelled', 'pending']);
  });

  it('of 100 orders, three times each on two replicas: one per order returns 204, the others 409', async () => {
    const ids = await insertOrders(100);
    const shipped = await insertOrder(service.db, { status: 'shipped' });
    const other = await insertOrder(service.db);
    // The replicas take the orders in opposite directions, in which statements that wait for locks would deadlock.
    const first = [...ids, ...ids, shipped, '404404'].map((id) => [services[0].baseUrl, id] as const);
    const second = [...ids].reverse().map((id) => [services[1].baseUrl, id] as const);
    const mixed = first.flatMap((call, index) => (second[index] === undefined ? [call] : [call, second[index]]));
    const outcomes = await Promise.all(mixed.map(async ([url, id]) => [id, await outcome(url, id)] as const));
    for (const id of ids) {
      const ofThis = outcomes.filter(([each]) => each === id).map(([, outcome]) => outcome);
      expect(tally(ofThis)).toEqual({ '204': 1, '409 order_already_cancelled': 2 });
      expect(await statusOf(service.db, id)).toBe('cancelled');
    }
    expect(outcomes.filter(([id]) => id === shipped)).toEqual([[shipped, '409 order_already_shipped']]);
    expect(outcomes.filter(([id]) => id === '404404')).toEqual([['404404', '404 order_not_found']]);
    expect(await statusOf(service.db, other)).toBe('pending');
  });

  it('that arrive while two statements are running share the third', async () => {
    const ids = await insertOrders(300);
    const repository = service.app.get(OrdersRepository);
    const cancels = jest.spyOn(service.app.get(CancelBatcher), 'cancel');
    const waits = jest.spyOn(repository, 'cancelWaiting');
    const cancelUnlocked = repository.cancelUnlocked.bind(repository);
    const statements = jest.spyOn(repository, 'cancelUnlocked').mockImplementation(async (batch) => {
      await waitFor(() => cancels.mock.calls.length === ids.length, 'all cancels have arrived');
      return cancelUnlocked(batch);
    });
    const outcomes = await Promise.all(ids.map((id) => outcome(service.baseUrl, id)));
    expect(tally(outcomes)).toEqual({ '204': 300 });
    expect(statements).toHaveBeenCalledTimes(3);
    expect(waits).not.toHaveBeenCalled();
    const asked = statements.mock.calls.flatMap(([batch]) => batch.map(String));
    expect(asked.sort()).toEqual([...ids].sort());
  });

  it('use one statement when there is only one cancel', async () => {
    const id = await insertOrder(service.db);
    const statements = jest.spyOn(service.app.get(OrdersRepository), 'cancelUnlocked');
    expect(await outcome(service.baseUrl, id)).toBe('204');
    expect(statements.mock.calls).toEqual([[[BigInt(id)]]]);
  });

  it('fail with their statement, and the next cancels succeed', async () => {
    const ids = await insertOrders(20);
    const repository = service.app.get(OrdersRepository);
    const failing = jest.spyOn(repository, 'cancelUnlocked').mockRejectedValue(new Error('lost'));
    // More failures than slots: a batcher that lost a slot with each failure would stop.
    for (let round = 0; round < 4; round++) {
      const outcomes = await Promise.all(ids.map((id) => outcome(service.baseUrl, id)));
      expect(tally(outcomes)).toEqual({ '500 internal_error': 20 });
    }
    failing.mockRestore();
    expect(tally(await Promise.all(ids.map((id) => outcome(service.baseUrl, id))))).toEqual({ '204': 20 });
  });
});

describe('the plan of a statement', () => {
  it('is made once per connection and uses the index, even if the table was small at that time', async () => {
    const { main } = service.app.get(Pools);
    const client = await main.connect();
    try {
      await client.query('BEGIN');
      await client.query('CREATE TEMPORARY TABLE orders (LIKE public.orders INCLUDING ALL) ON COMMIT DROP');
      await client.query('INSERT INTO orders SELECT * FROM public.orders LIMIT 1');
      await client.query('ANALYZE orders');
      await client.query('PREPARE one (text) AS SELECT FROM orders WHERE id = ANY($1::bigint[])');
      const { rows } = await client.query<{ 'QUERY PLAN': string }>("EXPLAIN EXECUTE one('{1}')");
      const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
      expect(plan).toContain('$1');
      expect(plan).toContain('Index');
      expect(plan).not.toContain('Seq Scan');
    } finally {
      await client.query('ROLLBACK');
      client.release();
    }
  });
});

describe('a cancel with a concurrent shipment', () => {
  const SHIP = "UPDATE orders SET status = 'shipped' WHERE id = $1 AND status = 'pending'";

  /** Waits for a few turns of the event loop, so that the two requests overlap at different points. */
  async function turns(count: number): Promise<void> {
    for (let turn = 0; turn < count; turn++) {
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  async function race(round: number): Promise<string> {
    const id = await insertOrder(service.db);
    const [cancel, ship] = await Promise.all([
      turns(round % 5).then(() => outcome(services[round % 2]!.baseUrl, id)),
      turns((round * 7) % 40).then(() => service.db.query(SHIP, [id])),
    ]);
    return `${cancel}, ${ship.rowCount ?? 0} shipped, ${(await statusOf(service.db, id)) ?? 'gone'}`;
  }

  it('returns 204 and the order is cancelled, or returns 409 and the order is shipped', async () => {
    const untouched = await insertOrder(service.db);
    const endings: string[] = [];
    for (let round = 0; round < 400; round += 10) {
      endings.push(...(await Promise.all(Array.from({ length: 10 }, (_, racer) => race(round + racer)))));
    }
    expect(new Set(endings)).toEqual(
      // Both outcomes must occur; otherwise there was no race.
      new Set(['204, 0 shipped, cancelled', '409 order_already_shipped, 1 shipped, shipped']),
    );
    expect(await statusOf(service.db, untouched)).toBe('pending');
  });

  it('returns 204 or 409 consistently when the shipment reads the order under a lock first', async () => {
    const endings = await Promise.all(
      Array.from({ length: 60 }, async (_, round) => {
        const id = await insertOrder(service.db);
        const shipping = (async () => {
          await turns((round * 3) % 20);
          const session = await service.db.connect();
          try {
            await session.query('BEGIN');
            const seen = await session.query<{ status: string }>(
              'SELECT status::text FROM orders WHERE id = $1 FOR UPDATE',
              [id],
            );
            if (seen.rows[0]?.status === 'pending') {
              await session.query("UPDATE orders SET status = 'shipped' WHERE id = $1", [id]);
            }
            await session.query('COMMIT');
          } finally {
            session.release();
          }
        })();
        const [cancel] = await Promise.all([outcome(service.baseUrl, id), shipping]);
        return `${cancel}, ${(await statusOf(service.db, id)) ?? 'gone'}`;
      }),
    );
    const allowed = ['204, cancelled', '409 order_already_shipped, shipped'];
    expect(endings.filter((ending) => !allowed.includes(ending))).toEqual([]);
  });
});
