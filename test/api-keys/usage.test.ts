import { randomUUID } from 'node:crypto';
import { ANONYMOUS_ID } from '../../src/plans/plans.js';
import { UsageRecorder } from '../../src/usage/usage-recorder.js';
import { UsageRepository } from '../../src/usage/usage.repository.js';
import type { UsageRow } from '../../src/usage/usage-counts.js';
import { type Config, loadConfig } from '../../src/config/config.js';
import { Pools } from '../../src/database/pools.js';
import { PrismaService } from '../../src/database/prisma.service.js';
import { Metrics } from '../../src/metrics/metrics.js';
import { lockOrder, openTransaction, untilLockWaits } from '../helpers/lock-waits.js';
import { call, cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { ManualClock } from '../helpers/manual-clock.js';
import { RawClient } from '../helpers/raw-client.js';
import { requestRaw } from '../helpers/raw-http.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { startTestService, useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { exchange, requestText } from '../helpers/wire.js';

const DAY_MS = 86_400_000;
const NOTHING = { admitted: '0', rejected: '0', banned: '0', lists: '0', cancels: '0', list_bytes: '0' };

const context = useTestService({ environment: { RATE_LIMIT_BAN_THRESHOLD: '3', CANCEL_LOCK_TIMEOUT_MS: '30000' } });

/** @param day by default any: it may change during a test */
async function usageOf(id: string, day = 'day'): Promise<Record<string, unknown> | undefined> {
  const { rows } = await context.service.db.query<Record<string, unknown>>(
    `SELECT admitted, rejected, banned, lists, cancels, list_bytes FROM api_key_usage WHERE key_id = $1 AND day = ${day}`,
    [id],
  );
  return rows[0];
}

describe('the usage of a key', () => {
  it('has its admitted, rejected and banned requests, and those of no other key', async () => {
    const [free, other] = [await insertKey(context.service.db, { plan: 'free' }), await insertKey(context.service.db)];
    await call(context.service.baseUrl, 'GET', '/nothing-here', other.key);
    for (let request = 0; request < 60 + 2 + 4; request++) {
      if (request > 60) {
        // Later than what may have been in flight at the first rejection.
        context.service.clock.advance(2_000);
      }
      await call(context.service.baseUrl, 'HEAD', '/store/orders', free.key);
    }
    await context.service.flushUsage();
    expect(await usageOf(free.id)).toEqual({ ...NOTHING, admitted: '60', rejected: '2', banned: '4' });
    expect(await usageOf(other.id)).toEqual({ ...NOTHING, admitted: '1' });
  });

  it.each(['gzip', 'identity'])('has its lists and the bytes of their %s bodies as sent', async (encoding) => {
    const { id, key } = await insertKey(context.service.db);
    await insertOrder(context.service.db);
    const headers = { 'Accept-Encoding': encoding };
    const list = await requestRaw(context.service.baseUrl, { key, headers });
    const bytes = list.body.length;
    const etag = String(list.headers.etag);
    expect((await listOrders(context.service.baseUrl, key, { 'If-None-Match': etag })).status).toBe(304);
    await call(context.service.baseUrl, 'HEAD', '/store/orders', key);
    await context.service.flushUsage();
    expect(bytes).toBeGreaterThan(50);
    expect(await usageOf(id)).toEqual({ ...NOTHING, admitted: '3', lists: '2', list_bytes: String(bytes) });
  });

  it('has the orders that it cancelled, and not the cancels that failed', async () => {
    const { id, key } = await insertKey(context.service.db);
    const [order, late] = [await insertOrder(context.service.db), await insertOrder(context.service.db)];
    for (const wanted of [order, order, '987654321']) {
      await cancelOrder(context.service.baseUrl, wanted, key);
    }
    // Also one whose client leaves before it is cancelled.
    const release = await lockOrder(context.service.db, late);
    const text = requestText('DELETE', `/v1/store/orders/${late}`, { key });
    const client = await RawClient.open(context.service.port, text);
    await untilLockWaits(context.service.db);
    const aborted = async (): Promise<number> =>
      (await ServiceMetrics.of(context.service.app)).sum('http_server_request_duration_seconds_count', 'aborted');
    const before = await aborted();
    client.socket.destroy();
    await waitFor(async () => (await aborted()) > before, 'the request has ended');
    await release();
    await waitFor(async () => {
      await context.service.flushUsage();
      return (await usageOf(id))?.cancels === '2';
    }, 'both are counted');
    expect(await usageOf(id)).toEqual({ ...NOTHING, admitted: '4', cancels: '2' });
  });

  it('includes a response that ends during the stop', async () => {
    const replica = await startTestService({ database: context.service });
    const { id, key } = await insertKey(context.service.db);
    const order = await insertOrder(context.service.db);
    const release = await lockOrder(context.service.db, order);
    const cancelled = cancelOrder(replica.baseUrl, order, key);
    // The lock is held until the stop has begun.
    await untilLockWaits(context.service.db);
    const stopped = replica.app.close();
    await release();
    expect((await cancelled).status).toBe(204);
    await stopped;
    expect(await usageOf(id)).toEqual({ ...NOTHING, admitted: '1', cancels: '1' });
  });

  it('is counted once when the last use of the key cannot be written', async () => {
    const { db } = context.service;
    const { id, key } = await insertKey(db);
    await db.query('REVOKE UPDATE (last_used_at) ON api_keys FROM petstore_service');
    await call(context.service.baseUrl, 'HEAD', '/store/orders', key);
    await context.service.flushUsage();
    await context.service.flushUsage();
    await db.query('GRANT UPDATE (last_used_at) ON api_keys TO petstore_service');
    expect(await usageOf(id)).toEqual({ ...NOTHING, admitted: '1' });
    const { rows } = await db.query('SELECT last_used_at FROM api_keys WHERE id = $1', [id]);
    expect(rows).toEqual([{ last_used_at: null }]);
  });

  it('has requests without a valid key in one row, without addresses', async () => {
    await context.service.db.query('DELETE FROM api_key_usage');
    await call(context.service.baseUrl, 'GET', '/store/orders');
    await call(context.service.baseUrl, 'GET', '/store/orders', 'not-a-key');
    // Never becomes a request.
    await exchange(context.service.port, 'GET /v1/store/orders HTTP/1.1\r\nBad Header\r\n\r\n', { until: 'closed' });
    await context.service.flushUsage();
    const { rows } = await context.service.db.query('SELECT * FROM api_key_usage');
    expect(rows).toEqual([{ key_id: ANONYMOUS_ID, day: expect.any(Date) as Date, ...NOTHING, admitted: '2' }]);
  });

  it('stays when the key is deleted, and a deleted key does not stop the others', async () => {
    const [deleted, kept] = [await insertKey(context.service.db), await insertKey(context.service.db)];
    await call(context.service.baseUrl, 'HEAD', '/store/orders', deleted.key);
    await call(context.service.baseUrl, 'HEAD', '/store/orders', kept.key);
    await context.service.db.query('DELETE FROM api_keys WHERE id = $1', [deleted.id]);
    await context.service.flushUsage();
    expect(await usageOf(deleted.id)).toEqual({ ...NOTHING, admitted: '1' });
    expect(await usageOf(kept.id)).toEqual({ ...NOTHING, admitted: '1' });
  });
});

describe('the usage recorder', () => {
  let config: Config;
  let pools: Pools;
  let repository: UsageRepository;
  beforeAll(() => {
    config = loadConfig({ DATABASE_URL: context.service.url });
    pools = new Pools(config, new Metrics());
    repository = new UsageRepository(new PrismaService(pools), pools);
  });
  afterAll(() => pools.onApplicationShutdown());

  it('adds counts to the day on which they were counted, when they are written two days later', async () => {
    const [id, clock] = [randomUUID(), new ManualClock()];
    const recorder = new UsageRecorder(repository, clock, config, new Metrics());
    recorder.add(id, { admitted: 1 });
    clock.advance(DAY_MS);
    recorder.add(id, { rejected: 1 });
    clock.advance(DAY_MS);
    await recorder.flush();
    expect(await usageOf(id, 'CURRENT_DATE - 2')).toEqual({ ...NOTHING, admitted: '1' });
    expect(await usageOf(id, 'CURRENT_DATE - 1')).toEqual({ ...NOTHING, rejected: '1' });
    expect(await usageOf(id, 'CURRENT_DATE')).toBeUndefined();
  });

  it('adds counts to the day of the database when they are written while only the clock of the process has passed midnight', async () => {
    const [id, clock] = [randomUUID(), new ManualClock(Date.UTC(2026, 10, 21, 23, 59, 59, 900))];
    const recorder = new UsageRecorder(repository, clock, config, new Metrics());
    recorder.add(id, { admitted: 1 });
    clock.advance(100);
    recorder.add(id, { admitted: 2 });
    await recorder.flush();
    expect(await usageOf(id, 'CURRENT_DATE')).toEqual({ ...NOTHING, admitted: '3' });
  });

  it('adds counts to the current day when the clock of the process is set back before they are written', async () => {
    const [id, clock] = [randomUUID(), new ManualClock()];
    const recorder = new UsageRecorder(repository, clock, config, new Metrics());
    recorder.add(id, { admitted: 1 });
    clock.advance(-2 * DAY_MS);
    await recorder.flush();
    expect(await usageOf(id, 'CURRENT_DATE')).toEqual({ ...NOTHING, admitted: '1' });
  });

  it('writes rows of many keys to a slow disk, in statements that end within their timeout', async () => {
    // The four seconds of 4,000 rows are longer than a statement may take.
    await context.service.db.query(
      `CREATE FUNCTION slow_disk() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN PERFORM pg_sleep(0.001 * (SELECT count(*) FROM added)); RETURN NULL; END $$`,
    );
    await context.service.db.query(
      `CREATE TRIGGER slow_disk AFTER INSERT ON api_key_usage REFERENCING NEW TABLE AS added
       FOR EACH STATEMENT EXECUTE FUNCTION slow_disk()`,
    );
    const slow = new Pools({ ...config, cancelLockTimeoutMs: 100 }, new Metrics());
    const metrics = new Metrics();
    const recorder = new UsageRecorder(
      new UsageRepository(new PrismaService(slow), slow),
      new ManualClock(),
      config,
      metrics,
    );
    try {
      for (let row = 0; row < 4_000; row++) {
        recorder.add(randomUUID(), { banned: 17 });
      }
      // A flush that takes long leaves the rest to the next one.
      await recorder.flush();
      await recorder.flush();
    } finally {
      await slow.onApplicationShutdown();
      await context.service.db.query('DROP TRIGGER slow_disk ON api_key_usage');
    }
    const { rows } = await context.service.db.query('SELECT count(*) FROM api_key_usage WHERE banned = 17');
    expect(rows).toEqual([{ count: '4000' }]);
    expect((await metrics.registry.getSingleMetric('petstore_usage_unflushed_rows')?.get())?.values[0]?.value).toBe(0);
  });

  it('adds up all counts, and does not deadlock with another one that writes the same keys in another order', async () => {
    const row = { sinceMs: Date.now(), admitted: 1, rejected: 2, banned: 3, lists: 4, cancels: 5, listBytes: 6 };
    const rows = Array.from({ length: 2_000 }, (): UsageRow => ({ ...row, keyId: randomUUID() }));
    await Promise.all([rows, rows.toReversed()].flatMap((order) => [1, 2, 3].map(() => repository.addUsage(order, 0))));
    const { rows: sums } = await context.service.db.query(
      `SELECT count(*) AS keys, admitted, rejected, banned, lists, cancels, list_bytes FROM api_key_usage
       WHERE key_id = ANY($1) GROUP BY 2, 3, 4, 5, 6, 7`,
      [rows.map(({ keyId }) => keyId)],
    );
    const each = { admitted: '6', rejected: '12', banned: '18', lists: '24', cancels: '30', list_bytes: '36' };
    expect(sums).toEqual([{ keys: '2000', ...each }]);
  });

  it('removes only days that are too old, in bounded steps, and no row that another replica removes', async () => {
    await context.service.db.query('DELETE FROM api_key_usage');
    await context.service.db.query(
      `INSERT INTO api_key_usage SELECT gen_random_uuid(), CURRENT_DATE - age, 1, 0, 0, 0, 0, 0
       FROM unnest(ARRAY[0, 399, 400, 401, 402, 500]) AS age`,
    );
    const lock = 'SELECT FROM api_key_usage WHERE day = CURRENT_DATE - 500 FOR UPDATE';
    const unlock = await openTransaction(context.service.db, lock);
    expect(await repository.removeOldUsage(400, 1)).toBe(1);
    expect(await repository.removeOldUsage(400, 2)).toBe(1);
    await unlock();
    expect(await repository.removeOldUsage(400, 2)).toBe(1);
    const { rows } = await context.service.db.query('SELECT CURRENT_DATE - day AS age FROM api_key_usage ORDER BY age');
    expect(rows).toEqual([{ age: 0 }, { age: 399 }, { age: 400 }]);
  });
});
