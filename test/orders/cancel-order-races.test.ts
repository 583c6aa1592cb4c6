import type pg from 'pg';
import { cancelOrder, errorOf, outcomeOfCancel } from '../helpers/api.js';
import { buildOrder, type OrderRow, insertKey, insertOrder, insertOrders, statusOf } from '../helpers/builders.js';
import { lockOrder, lockWaits, openTransaction, untilLockWaits } from '../helpers/lock-waits.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { type TestService, startTestService, useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { exchange, requestText } from '../helpers/wire.js';

/** No such order. */
const ABSENT = '404404';

/** What the metrics show of cancels since this call. */
async function countCancels(
  of: TestService,
): Promise<() => Promise<Record<'statements' | 'orders' | 'waits', number>>> {
  const counts = async (): Promise<number[]> => {
    const metrics = await ServiceMetrics.of(of.app);
    return ['batch_size_count', 'batch_size_sum', 'lock_waits_total'].map((name) =>
      metrics.sum(`petstore_cancel_${name}`),
    );
  };
  const before = await counts();
  return async () => {
    const [statements = 0, orders = 0, waits = 0] = (await counts()).map((count, index) => count - before[index]!);
    return { statements, orders, waits };
  };
}

/** Cancels each order on a connection of its own. */
function separately(of: TestService, key: string, ids: readonly string[]): Promise<string>[] {
  return ids.map((id) => outcomeOfCancel(of.baseUrl, id, key));
}

/**
 * Cancels hundreds of orders over a few connections. With one each, on a busy machine, the first ones would give up before the
 * last ones arrive.
 */
function pipelined(of: TestService, key: string, ids: readonly string[]): Promise<string>[] {
  const PER_CONNECTION = 32;
  const parts = Array.from({ length: Math.ceil(ids.length / PER_CONNECTION) }, (_, index) =>
    ids.slice(index * PER_CONNECTION, (index + 1) * PER_CONNECTION),
  );
  return parts.flatMap((part) => {
    const requests = part.map((id) => requestText('DELETE', `/v1/store/orders/${id}`, { key })).join('');
    const exchanged = exchange(of.port, requests, { until: part.length });
    return part.map(async (_id, index) => String((await exchanged).responses[index]?.status));
  });
}

/**
 * Cancels orders while two statements, of an order that does not exist, wait for a locked table: all of them share the next one.
 * @returns the outcomes, once all have arrived and the table is unlocked
 */
async function cancelTogether(
  of: TestService,
  key: string,
  ids: readonly string[],
  cancelAll = separately,
): Promise<Promise<string>[]> {
  // No row is locked, so that a test may lock some.
  const unlock = await openTransaction(of.db, 'LOCK TABLE orders IN SHARE MODE');
  const admitted = async (): Promise<number> =>
    (await ServiceMetrics.of(of.app)).sum('petstore_limiter_decisions_total', 'outcome="admitted"');
  const waiting = await lockWaits(of.db);
  const first: Promise<string>[] = [];
  for (const count of [1, 2]) {
    first.push(outcomeOfCancel(of.baseUrl, ABSENT, key));
    await untilLockWaits(of.db, waiting + count);
  }
  const before = await admitted();
  const outcomes = cancelAll(of, key, ids);
  await waitFor(async () => (await admitted()) - before === ids.length, 'all cancels have arrived');
  await unlock();
  expect(await Promise.all(first)).toEqual(Array(2).fill('404 order_not_found'));
  return outcomes;
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
  const context = useTestService({ environment: { CANCEL_LOCK_TIMEOUT_MS: '30000' } });
  let service: TestService;
  beforeEach(() => {
    ({ service } = context);
  });

  function outcome(id: string): Promise<string> {
    return outcomeOfCancel(service.baseUrl, id, context.key);
  }

  async function together(ids: readonly string[], cancelAll = separately): Promise<string[]> {
    return Promise.all(await cancelTogether(service, context.key, ids, cancelAll));
  }

  describe('concurrent cancels', () => {
    it('that arrive while two statements are running share the next ones, of at most 500 orders', async () => {
      const ids = await insertOrders(service.db, 501);
      const counted = await countCancels(service);
      expect(tally(await together(ids, pipelined))).toEqual({ '204': 501 });
      expect(await counted()).toEqual({ statements: 4, orders: 503, waits: 0 });
    });

    it('of one order in one statement cancel it once', async () => {
      const states = ['pending', 'shipped', 'cancelled'] as const;
      const stored = await Promise.all(states.map((status) => insertOrder(service.db, { status })));
      const ids = [...stored, '404405'];
      const counted = await countCancels(service);
      expect(tally(await together([...ids, ...ids, ...ids]))).toEqual({
        '204': 1,
        '409 order_already_cancelled': 2 + 3,
        '409 order_already_shipped': 3,
        '404 order_not_found': 3,
      });
      expect(await counted()).toEqual({ statements: 3, orders: 6, waits: 0 });
      const { rows } = await service.db.query('SELECT cancelled_at FROM orders WHERE id = $1', [stored[2]]);
      expect(rows).toEqual([{ cancelled_at: new Date(buildOrder({ status: 'cancelled' }).cancelled_at!) }]);
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
      const counted = await countCancels(service);
      const cancelled = outcome(id);
      await untilLockWaits(service.db);
      await release();
      await goOn();
      expect(await cancelled).toBe('204');
      await service.db.query('DROP FUNCTION wait() CASCADE');
      // No statement waited for the row.
      expect(await counted()).toEqual({ statements: 1, orders: 1, waits: 0 });
    });
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
      const counted = await countCancels(service);
      const outcomes = await together(ids);
      expect(await counted()).toMatchObject({ statements: 3, orders: 62 });
      expect(outcomes).toEqual([...Array<string>(59).fill('204'), expected]);
      expect(await statusOf(service.db, bad)).toBe('pending');
      expect(await statusOf(service.db, ids[30]!)).toBe('cancelled');
      // Alone, too.
      expect(await outcome(bad)).toBe(expected);
    });
  });
});

describe('cancels of locked orders', () => {
  /** The lock timeout of a service: longer than any test holds a lock. */
  const PATIENCE_MS = 15_000;
  let patient: TestService;
  /** Its lock timeout is short. */
  let impatient: TestService;
  let key: string;
  let session: pg.PoolClient;
  let untouched: string;

  beforeAll(async () => {
    patient = await startTestService({ environment: { CANCEL_LOCK_TIMEOUT_MS: String(PATIENCE_MS) } });
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

    it('returns 409 when the other transaction ships the order and commits, also in one statement with other orders', async () => {
      const [id, ...others] = await insertOrders(patient.db, 11);
      await lock([id!]);
      const outcomes = await cancelTogether(patient, key, [id!, ...others]);
      await untilWaiting();
      await session.query(SHIP.replace('$id', id!));
      await session.query('COMMIT');
      expect(await Promise.all(outcomes)).toEqual(['409 order_already_shipped', ...Array<string>(10).fill('204')]);
      expect(await statusOf(patient.db, id!)).toBe('shipped');
    });

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

    it('returns 503 when the whole table stays locked', async () => {
      const id = await insertOrder(patient.db);
      await session.query('LOCK TABLE orders IN ACCESS EXCLUSIVE MODE');
      expect(await outcome(impatient, id)).toBe('503 service_unavailable');
    });

    it('does not delay cancels of other orders, including those in its batch', async () => {
      const [id, ...others] = await insertOrders(patient.db, 41);
      await lock([id!]);
      const counted = await countCancels(patient);
      const callers = [...others.slice(0, 20), id!, ...others.slice(20), '404405'];
      const outcomes = await cancelTogether(patient, key, callers);
      const startedAt = performance.now();
      const held = outcomes.splice(20, 1);
      expect(tally(await Promise.all(outcomes))).toEqual({ '204': 40, '404 order_not_found': 1 });
      // A statement that waits for the lock fails in the end, and its orders are cancelled one by one.
      expect(performance.now() - startedAt).toBeLessThan(PATIENCE_MS);
      await untilWaiting();
      expect(await counted()).toEqual({ statements: 3, orders: 44, waits: 1 });
      expect(await statusOf(patient.db, id!)).toBe('pending');
      await session.query('ROLLBACK');
      expect(await Promise.all(held)).toEqual(['204']);
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
