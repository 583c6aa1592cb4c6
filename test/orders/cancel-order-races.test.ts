import type pg from 'pg';
import { Pools } from '../../src/database/pools.js';
import { Metrics } from '../../src/metrics/metrics.js';
import { CancelBatcher } from '../../src/orders/cancel-batcher.js';
import { OrdersRepository } from '../../src/orders/orders.repository.js';
import { cancelOrder, errorOf, outcomeOfCancel } from '../helpers/api.js';
import { type OrderRow, insertKey, insertOrder, insertOrders, statusOf } from '../helpers/builders.js';
import { lockOrder, openTransaction, untilLockWaits } from '../helpers/lock-waits.js';
import { type TestService, startTestService, useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

/**
 * Makes the first statements wait until so many cancels have arrived: the next ones take all the others.
 * @returns the ids of each statement
 */
function gatherCancels({ app }: TestService, count: number): () => (readonly bigint[])[] {
  const repository = app.get(OrdersRepository);
  const cancels = jest.spyOn(app.get(CancelBatcher), 'cancel');
  const cancelWithoutWaiting = repository.cancelWithoutWaiting.bind(repository);
  const statements = jest.spyOn(repository, 'cancelWithoutWaiting').mockImplementation(async (batch) => {
    await waitFor(() => cancels.mock.calls.length >= count, 'all cancels have arrived');
    return cancelWithoutWaiting(batch);
  });
  return () => statements.mock.calls.map(([batch]) => batch);
}

/** How often each outcome occurs. */
function tally(outcomes: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const each of outcomes) {
    counts[each] = (counts[each] ?? 0) + 1;
  }
  return counts;
}

describe('cancels at the same time', () => {
  const context = useTestService();
  let service: TestService;
  beforeEach(() => {
    ({ service } = context);
  });

  function outcome(id: string): Promise<string> {
    return outcomeOfCancel(service.baseUrl, id, context.key);
  }

  describe('concurrent cancels', () => {
    it('that arrive while two statements are running share the third', async () => {
      const ids = await insertOrders(service.db, 300);
      const waits = jest.spyOn(service.app.get(Metrics).cancelLockWaits, 'inc');
      const statements = gatherCancels(service, ids.length);
      expect(tally(await Promise.all(ids.map(outcome)))).toEqual({ '204': 300 });
      expect(statements()).toHaveLength(3);
      expect(statements().flat().map(String).sort()).toEqual([...ids].sort());
      expect(waits).not.toHaveBeenCalled();
    });

    it('in one turn of the event loop share statements of at most 500 orders', async () => {
      const ids = await insertOrders(service.db, 501);
      const batcher = service.app.get(CancelBatcher);
      const measured = jest.spyOn(service.app.get(Metrics).cancelBatchSize, 'observe');
      expect(tally((await Promise.all(ids.map((id) => batcher.cancel(BigInt(id), 'a')))).map(String))).toEqual({
        cancelled: 501,
      });
      expect(measured.mock.calls).toEqual([[500], [1]]);
    });

    it('of one order in one statement cancel it once', async () => {
      const ids = [await insertOrder(service.db), await insertOrder(service.db, { status: 'shipped' }), '404404'];
      const statements = jest.spyOn(service.app.get(OrdersRepository), 'cancelWithoutWaiting');
      const batcher = service.app.get(CancelBatcher);
      const outcomes = await Promise.all([...ids, ...ids, ...ids].map((id) => batcher.cancel(BigInt(id), 'a')));
      expect(statements.mock.calls).toEqual([[ids.map(BigInt)]]);
      const repeated = ['already_cancelled', 'already_shipped', undefined];
      expect(outcomes).toEqual(['cancelled', 'already_shipped', undefined, ...repeated, ...repeated]);
    });

    it('succeed when the order was locked for the first of two statements only', async () => {
      const id = await insertOrder(service.db);
      // The first statement has skipped the locked row when it waits here, also without a row to update.
      await service.db.query(`
      CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_advisory_xact_lock_shared(41); RETURN NULL; END $$;
      CREATE TRIGGER wait AFTER UPDATE ON orders FOR EACH STATEMENT EXECUTE FUNCTION wait()`);
      const goOn = await openTransaction(service.db, 'SELECT pg_advisory_xact_lock(41)');
      const release = await lockOrder(service.db, id);
      const waits = jest.spyOn(service.app.get(Metrics).cancelLockWaits, 'inc');
      const cancelled = outcome(id);
      await untilLockWaits(service.db);
      await release();
      await goOn();
      expect(await cancelled).toBe('204');
      await service.db.query('DROP FUNCTION wait() CASCADE');
      // No statement waited for the row.
      expect(waits).not.toHaveBeenCalled();
    });

    it('fail with their statement, and the next cancels succeed', async () => {
      const ids = await insertOrders(service.db, 20);
      const repository = service.app.get(OrdersRepository);
      const failing = jest.spyOn(repository, 'cancelWithoutWaiting').mockRejectedValue(new Error('lost'));
      // More failures than slots: a batcher that lost a slot with each failure would stop.
      for (let round = 0; round < 4; round++) {
        const outcomes = await Promise.all(ids.map((id) => outcome(id)));
        expect(tally(outcomes)).toEqual({ '500 internal_error': 20 });
      }
      failing.mockRestore();
      expect(tally(await Promise.all(ids.map((id) => outcome(id))))).toEqual({ '204': 20 });
    });
  });

  it('the plan of a statement is made once per connection and uses the index, even if the table was small at that time', async () => {
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

  describe('a trigger for one order', () => {
    afterEach(() => service.db.query('DROP FUNCTION of_the_operator() CASCADE'));

    it.each([
      ['raises an error', "RAISE EXCEPTION 'not this one' USING ERRCODE = 'P0001';", '500 internal_error'],
      ['reports a conflict', "RAISE EXCEPTION 'not this one' USING ERRCODE = '40001';", '503 service_unavailable'],
      ['suppresses the update', 'RETURN NULL;', '500 internal_error'],
      ['keeps the status', 'NEW.status := OLD.status; NEW.cancelled_at := NULL;', '500 internal_error'],
    ])('that %s fails the cancel of this order alone, of sixty in a batch', async (_what, body, expected) => {
      const ids = await insertOrders(service.db, 60);
      const bad = ids[59]!;
      await service.db.query(`
      CREATE FUNCTION of_the_operator() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN IF OLD.id = ${bad} THEN ${body} END IF; RETURN NEW; END $$;
      CREATE TRIGGER of_the_operator BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION of_the_operator()`);
      const statements = gatherCancels(service, ids.length);
      const outcomes = await Promise.all(ids.map(outcome));
      expect(statements().some((batch) => batch.length >= 30 && batch.includes(BigInt(bad)))).toBe(true);
      expect(outcomes).toEqual([...Array<string>(59).fill('204'), expected]);
      expect(await statusOf(service.db, bad)).toBe('pending');
      expect(await statusOf(service.db, ids[30]!)).toBe('cancelled');
      // Alone, too.
      expect(await outcome(bad)).toBe(expected);
    });
  });
});

describe('cancels of locked orders', () => {
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
    expect(await statusOf(patient.db, untouched)).toBe('pending');
  });
  afterAll(async () => {
    await impatient.stop();
    await patient.stop();
  });

  function outcome(service: TestService, id: string): Promise<string> {
    return outcomeOfCancel(service.baseUrl, id, key);
  }

  function lock(ids: readonly string[]): Promise<unknown> {
    return session.query('SELECT FROM orders WHERE id = ANY($1) FOR UPDATE', [ids]);
  }

  function untilWaiting(): Promise<void> {
    return untilLockWaits(patient.db);
  }

  describe('a cancel of an order that another transaction has locked', () => {
    const SHIP = "UPDATE orders SET status = 'shipped' WHERE id = $id";
    const CANCEL = "UPDATE orders SET status = 'cancelled', cancelled_at = now() WHERE id = $id";
    const UNSHIP = "UPDATE orders SET status = 'pending' WHERE id = $id";
    const DELETE = 'DELETE FROM orders WHERE id = $id';
    const CHANGE = 'UPDATE orders SET quantity = 99 WHERE id = $id';
    const INSERT = "INSERT INTO orders (id, pet_id, quantity, status) VALUES ($id, 1, 1, 'pending')";
    const INSERT_SHIPPED = INSERT.replace('pending', 'shipped');
    const SHARE = 'SELECT FROM orders WHERE id = $id FOR SHARE';

    it.each<[string, string[], string, string, string | undefined, OrderRow['status']?]>([
      ['ships the order and commits', [SHIP], 'COMMIT', '409 order_already_shipped', 'shipped'],
      ['cancels the order and commits', [CANCEL], 'COMMIT', '409 order_already_cancelled', 'cancelled'],
      ['deletes the order and commits', [DELETE], 'COMMIT', '404 order_not_found', undefined],
      ['replaces the order and commits', [DELETE, INSERT], 'COMMIT', '204', 'cancelled'],
      [
        'replaces the order by a shipped one',
        [DELETE, INSERT_SHIPPED],
        'COMMIT',
        '409 order_already_shipped',
        'shipped',
      ],
      ['changes the quantity and commits', [CHANGE], 'COMMIT', '204', 'cancelled'],
      ['holds a shared lock and commits', [SHARE], 'COMMIT', '204', 'cancelled'],
      ['ships the order and rolls back', [SHIP], 'ROLLBACK', '204', 'cancelled'],
      ['deletes the order and rolls back', [DELETE], 'ROLLBACK', '204', 'cancelled'],
      ['makes the shipped order pending and commits', [UNSHIP], 'COMMIT', '204', 'cancelled', 'shipped'],
    ])(
      'waits, and returns the result of the final state when the other transaction %s',
      async (_what, statements, end, expected, status, before = 'pending') => {
        const id = await insertOrder(patient.db, { status: before });
        for (const statement of statements) {
          await session.query(statement.replace('$id', id));
        }
        const result = outcome(patient, id);
        await untilWaiting();
        await session.query(end);
        expect(await result).toBe(expected);
        expect(await statusOf(patient.db, id)).toBe(status);
      },
    );

    it('returns 503 with a reason and changes nothing when the lock outlasts CANCEL_LOCK_TIMEOUT_MS', async () => {
      const id = await insertOrder(patient.db);
      await lock([id]);
      const response = await cancelOrder(impatient.baseUrl, id, key);
      expect(response.status).toBe(503);
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
      const [id, ...others] = await insertOrders(patient.db, 41);
      await lock([id!]);
      const statements = gatherCancels(patient, others.length + 2);
      const callers = [...others.slice(0, 20), id!, ...others.slice(20), '404404'];
      const results = new Map(callers.map((caller) => [caller, outcome(patient, caller)]));
      const outcomes = await Promise.all([...others, '404404'].map((caller) => results.get(caller)!));
      expect(new Set(outcomes.slice(0, -1))).toEqual(new Set(['204']));
      expect(outcomes.at(-1)).toBe('404 order_not_found');
      expect(statements().some((batch) => batch.length > 20 && batch.includes(BigInt(id!)))).toBe(true);
      // A statement that waits for the lock fails in the end, and its orders are cancelled one by one.
      expect(statements().flat().map(String).sort()).toEqual(callers.sort());
      expect(await statusOf(patient.db, id!)).toBe('pending');
      await session.query('ROLLBACK');
      expect(await results.get(id!)!).toBe('204');
    });
  });

  it.each([
    ['one locked order', 1, { '204': 1, '409 order_already_cancelled': 49 }],
    ['fifty locked orders', 50, { '204': 50 }],
  ])(
    'fifty concurrent cancels of %s delay no other order, and have their results after the release',
    async (_what, count, expected) => {
      const ids = await insertOrders(patient.db, count);
      const others = await insertOrders(patient.db, 20);
      await lock(ids);
      const held = Array.from({ length: 50 }, (_, caller) => outcome(patient, ids[caller % count]!));
      await untilWaiting();
      expect(new Set(await Promise.all(others.map((other) => outcome(patient, other))))).toEqual(new Set(['204']));
      await session.query('ROLLBACK');
      expect(tally(await Promise.all(held))).toEqual(expected);
    },
  );
});
