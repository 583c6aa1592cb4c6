import { outcomeOfCancel } from '../helpers/api.js';
import { buildOrder, insertOrder, insertOrders, statusOf } from '../helpers/builders.js';
import { lockWaits, openTransaction, untilLockWaits } from '../helpers/lock-waits.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

/** No such order. */
const ABSENT = '404404';

// Longer than any test holds a lock.
const context = useTestService({ environment: { CANCEL_LOCK_TIMEOUT_MS: '15000' } });

async function metric(name: string, labels?: string): Promise<number> {
  return (await ServiceMetrics.of(context.service.app)).sum(name, labels);
}

/** What the metrics show of cancels since this call. */
async function countCancels(): Promise<() => Promise<Record<'statements' | 'orders' | 'waits', number>>> {
  const names = ['batch_size_count', 'batch_size_sum', 'lock_waits_total'];
  const counts = (): Promise<number[]> => Promise.all(names.map((name) => metric(`petstore_cancel_${name}`)));
  const before = await counts();
  return async () => {
    const [statements = 0, orders = 0, waits = 0] = (await counts()).map((count, index) => count - before[index]!);
    return { statements, orders, waits };
  };
}

function outcome(id: string): Promise<string> {
  return outcomeOfCancel(context.service.baseUrl, id, context.key);
}

/**
 * Cancels orders while two statements, of an order that does not exist, wait for a locked table: all of them share the next one.
 * @returns the outcomes, once all have arrived and the table is unlocked
 */
async function cancelTogether(ids: readonly string[]): Promise<Promise<string>[]> {
  const { db } = context.service;
  // No row is locked, so that a test may lock some.
  const unlock = await openTransaction(db, 'LOCK TABLE orders IN SHARE MODE');
  const admitted = (): Promise<number> => metric('petstore_limiter_decisions_total', 'outcome="admitted"');
  const waiting = await lockWaits(db);
  const first: Promise<string>[] = [];
  for (const count of [1, 2]) {
    first.push(outcome(ABSENT));
    await untilLockWaits(db, waiting + count);
  }
  const before = await admitted();
  const outcomes = ids.map(outcome);
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

it('cancels of one order in one statement: one of them cancels it', async () => {
  const { db } = context.service;
  const states = ['pending', 'shipped', 'cancelled'] as const;
  const stored = await Promise.all(states.map((status) => insertOrder(db, { status })));
  const ids = [...stored, '404405'];
  const counted = await countCancels();
  expect(tally(await Promise.all(await cancelTogether([...ids, ...ids, ...ids])))).toEqual({
    '204': 1,
    '409 order_already_cancelled': 2 + 3,
    '409 order_already_shipped': 3,
    '404 order_not_found': 3,
  });
  expect(await counted()).toEqual({ statements: 3, orders: 6, waits: 0 });
  const { rows } = await db.query('SELECT cancelled_at FROM orders WHERE id = $1', [stored[2]]);
  expect(rows).toEqual([{ cancelled_at: new Date(buildOrder({ status: 'cancelled' }).cancelled_at!) }]);
});

describe('a trigger for one of sixty orders in one statement', () => {
  afterEach(() => context.service.db.query('DROP FUNCTION of_the_operator() CASCADE'));

  it.each([
    ['raises an error', "RAISE EXCEPTION 'not this one' USING ERRCODE = 'P0001';", '500 internal_error'],
    [
      'waits for a lock',
      'SET LOCAL lock_timeout = 300; PERFORM pg_advisory_xact_lock(4711);',
      '503 service_unavailable',
    ],
    ['suppresses the update', 'RETURN NULL;', '500 internal_error'],
    ['keeps the status', 'NEW.status := OLD.status; NEW.cancelled_at := NULL;', '500 internal_error'],
  ])('%s: the cancel of this order fails alone', async (_what, body, expected) => {
    const { db } = context.service;
    const ids = await insertOrders(db, 60);
    const bad = ids[59]!;
    await db.query(`
      CREATE FUNCTION of_the_operator() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN IF OLD.id = ${bad} THEN ${body} END IF; RETURN NEW; END $$;
      CREATE TRIGGER of_the_operator BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION of_the_operator()`);
    const release = await openTransaction(db, 'SELECT pg_advisory_xact_lock(4711)', []);
    const counted = await countCancels();
    const outcomes = await Promise.all(await cancelTogether(ids));
    expect(await counted()).toMatchObject({ statements: 3, orders: 62 });
    expect(outcomes).toEqual([...Array<string>(59).fill('204'), expected]);
    expect(await statusOf(db, bad)).toBe('pending');
    expect(await statusOf(db, ids[30]!)).toBe('cancelled');
    // Without the others, too.
    expect(await outcome(bad)).toBe(expected);
    await release();
  });
});

describe('orders that another transaction has locked', () => {
  const lock = (ids: readonly string[]): ReturnType<typeof openTransaction> =>
    openTransaction(context.service.db, 'SELECT FROM orders WHERE id = ANY($1) FOR UPDATE', [ids]);

  it('one of them in a statement with others: these are cancelled at once, and it when it is unlocked', async () => {
    const { db } = context.service;
    const [id, ...others] = await insertOrders(db, 41);
    const release = await lock([id!]);
    const counted = await countCancels();
    const outcomes = await cancelTogether([...others.slice(0, 20), id!, ...others.slice(20), '404405']);
    const held = outcomes.splice(20, 1);
    expect(tally(await Promise.all(outcomes))).toEqual({ '204': 40, '404 order_not_found': 1 });
    await untilLockWaits(db);
    // A statement that waited for the lock would have failed, and its orders would have been cancelled one by one.
    expect(await counted()).toEqual({ statements: 3, orders: 44, waits: 1 });
    expect(await statusOf(db, id!)).toBe('pending');
    await release();
    expect(await Promise.all(held)).toEqual(['204']);
  });

  it('fifty with fifty cancels: these delay no other order, and have their results after the release', async () => {
    const { db } = context.service;
    const ids = await insertOrders(db, 50);
    const others = await insertOrders(db, 20);
    const release = await lock(ids);
    const held = ids.map(outcome);
    await untilLockWaits(db);
    expect(tally(await Promise.all(others.map(outcome)))).toEqual({ '204': 20 });
    await release();
    expect(tally(await Promise.all(held))).toEqual({ '204': 50 });
  });
});
