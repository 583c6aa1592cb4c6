import { call, cancelOrder, errorOf, listOrders, outcomeOfCancel } from '../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { lockTable, untilLockWaits } from '../helpers/lock-waits.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { startTestService, useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

/** The levels and lines of the log. */
const logged: [level: string, ...line: unknown[]][] = [];
const context = useTestService({
  // Look-ups wait for a locked table as long as a test locks it.
  environment: { CANCEL_LOCK_TIMEOUT_MS: '30000' },
  logger: {
    log: () => undefined,
    warn: (...line: unknown[]) => logged.push(['warn', ...line]),
    error: (...line: unknown[]) => logged.push(['error', ...line]),
  },
});

const TEMPORARY = {
  code: 'service_unavailable',
  message: 'The service is temporarily unavailable; retry shortly.',
  status: 503,
};
const LOCKED = { ...TEMPORARY, message: 'The order is locked by another transaction; retry shortly.' };
const PERMANENT = { code: 'internal_error', message: 'Internal server error.', status: 500 };

describe('a cancel that fails in PostgreSQL returns 503 with Retry-After, or 500 without details, and can be repeated', () => {
  beforeAll(async () => {
    await context.service.db.query(`
    CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN RAISE EXCEPTION 'of the test' USING ERRCODE = TG_ARGV[0]; END $$`);
  });

  // One of each class; the unit test of `isTransientDatabaseError` has the others.
  it.each([
    ['a full disk', '53100', TEMPORARY],
    ['a server that shuts down', '57P01', TEMPORARY],
    ['a deadlock', '40P01', TEMPORARY],
    ['a lock timeout', '55P03', LOCKED],
    ['a violated check constraint', '23514', PERMANENT],
    ['an internal error of PostgreSQL', 'XX000', PERMANENT],
  ])('%s (%s), and logs why', async (_what, sqlState, expected) => {
    const { service, key } = context;
    const id = await insertOrder(service.db);
    await service.db.query(
      `CREATE TRIGGER fail BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION fail('${sqlState}')`,
    );
    logged.length = 0;
    const response = await cancelOrder(service.baseUrl, id, key);
    await service.db.query('DROP TRIGGER fail ON orders');
    expect(await errorOf(response)).toEqual(expected);
    expect(response.headers.get('retry-after')).toBe(expected.status === 503 ? '1' : null);
    const requestId = response.headers.get('x-request-id');
    const fields = { requestId, method: 'DELETE', detail: expect.stringContaining('of the test') as unknown };
    const level = expected.status === 503 ? 'warn' : 'error';
    expect(logged).toEqual([[level, expect.any(String), fields, 'Errors']]);
    expect(await statusOf(service.db, id)).toBe('pending');
    expect((await listOrders(service.baseUrl, key)).status).toBe(200);
    expect((await cancelOrder(service.baseUrl, id, key)).status).toBe(204);
  });
});

describe('a key that cannot be looked up', () => {
  const lookUps = async (source: 'memory' | 'database'): Promise<number> =>
    (await ServiceMetrics.of(context.service.app)).sum('petstore_api_key_lookups_total', source);

  it('because the look-up fails gets 500 with the limits of an anonymous caller, and known keys are admitted', async () => {
    const { db, baseUrl } = context.service;
    const fresh = await insertKey(db);
    // A notification that arrives during a look-up keeps its result out of the cache.
    await waitFor(async () => {
      const before = await lookUps('memory');
      await cancelOrder(baseUrl, '404404', context.key);
      return (await lookUps('memory')) > before;
    }, 'the key is cached');
    await db.query('ALTER TABLE api_keys RENAME TO hidden');
    const response = await cancelOrder(baseUrl, '404404', fresh.key);
    const outcomes = [await outcomeOfCancel(baseUrl, '404404', context.key)];
    await db.query('ALTER TABLE hidden RENAME TO api_keys');
    outcomes.push(await outcomeOfCancel(baseUrl, '404404', fresh.key));
    expect(await errorOf(response)).toEqual(PERMANENT);
    expect(response.headers.get('x-ratelimit-limit')).toBe('60');
    expect(outcomes).toEqual(['404 order_not_found', '404 order_not_found']);
  });

  it('because the database is unavailable gets 503, and counts neither against the key nor against the address', async () => {
    const { service: database } = context;
    const proxy = await TcpProxy.start(database.url);
    const service = await startTestService({ database, environment: { DATABASE_URL: proxy.urlFor(database.url) } });
    const { key } = await insertKey(service.db, { plan: 'free' });
    try {
      expect((await listOrders(service.baseUrl, key)).headers.get('x-ratelimit-remaining')).toBe('59');
      proxy.rejectConnections();
      service.clock.advance(30_000);
      expect(await errorOf(await listOrders(service.baseUrl, key))).toEqual(TEMPORARY);
      proxy.restore();
      await waitFor(async () => (await listOrders(service.baseUrl, key)).status === 200, 'the database is used again');
      expect((await listOrders(service.baseUrl)).headers.get('x-ratelimit-remaining')).toBe('59');
    } finally {
      await service.stop();
      await proxy.close();
    }
  });

  it('because this version does not know its plan gets 500, and others in its look-up are admitted', async () => {
    const { service } = context;
    await service.db.query("ALTER TYPE plan ADD VALUE 'gold'");
    const { id, key } = await insertKey(service.db, { plan: 'free' });
    await service.db.query("UPDATE api_keys SET plan = 'gold' WHERE id = $1", [id]);
    const others = await Promise.all([1, 2, 3, 4].map(() => insertKey(service.db)));
    const head = async (of: string): Promise<number> =>
      (await call(service.baseUrl, 'HEAD', '/store/orders', of)).status;
    const before = await lookUps('database');
    const unlock = await lockTable(service.db, 'api_keys');
    // While two look-ups wait, those that arrive share the next one.
    const statuses = [head(others[0]!.key)];
    await untilLockWaits(service.db, 1, 'petstore-main');
    statuses.push(head(others[1]!.key));
    await untilLockWaits(service.db, 2, 'petstore-main');
    statuses.push(...[others[2]!.key, key, others[3]!.key].map(head));
    await waitFor(async () => (await lookUps('database')) === before + 5, 'all look-ups have arrived');
    await unlock();
    expect(await Promise.all(statuses)).toEqual([200, 200, 200, 500, 200]);
  });
});
