import { Metrics } from '../../src/metrics/metrics.js';
import { CancelBatcher } from '../../src/orders/cancel-batcher.js';
import { OrdersRepository } from '../../src/orders/orders.repository.js';
import { Pools } from '../../src/database/pools.js';
import { outcomeOfCancel } from '../helpers/api.js';
import { insertOrder, insertOrders, statusOf } from '../helpers/builders.js';
import { gatherCancels, tally } from '../helpers/cancel-batches.js';
import { lockOrder, openTransaction, untilLockWaits } from '../helpers/lock-waits.js';
import { type TestService, useTestService } from '../helpers/test-service.js';

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
    const statements = gatherCancels(service.app, ids.length);
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
    const statements = jest.spyOn(service.app.get(OrdersRepository), 'cancelUnlocked');
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
    const failing = jest.spyOn(repository, 'cancelUnlocked').mockRejectedValue(new Error('lost'));
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
    const statements = gatherCancels(service.app, ids.length);
    const outcomes = await Promise.all(ids.map(outcome));
    expect(statements().some((batch) => batch.length >= 30 && batch.includes(BigInt(bad)))).toBe(true);
    expect(outcomes).toEqual([...Array<string>(59).fill('204'), expected]);
    expect(await statusOf(service.db, bad)).toBe('pending');
    expect(await statusOf(service.db, ids[30]!)).toBe('cancelled');
    // Alone, too.
    expect(await outcome(bad)).toBe(expected);
  });
});
