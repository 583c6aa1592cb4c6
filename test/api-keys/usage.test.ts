import { randomUUID } from 'node:crypto';
import { ANONYMOUS_ID } from '../../src/plans/plans.js';
import { UsageRecorder } from '../../src/usage/usage-recorder.js';
import { UsageRepository } from '../../src/usage/usage.repository.js';
import type { UsageRow } from '../../src/usage/usage-counts.js';
import { lockOrder, openTransaction, untilLockWaits } from '../helpers/lock-waits.js';
import { call, cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { RawClient } from '../helpers/raw-client.js';
import { requestRaw } from '../helpers/raw-http.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { startTestService, useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { exchange, requestText } from '../helpers/wire.js';

const NOTHING = { admitted: '0', rejected: '0', banned: '0', lists: '0', cancels: '0', list_bytes: '0' };

const context = useTestService({ environment: { RATE_LIMIT_BAN_THRESHOLD: '3', CANCEL_LOCK_TIMEOUT_MS: '30000' } });

async function usageOf(id: string): Promise<Record<string, unknown> | undefined> {
  const { rows } = await context.service.db.query<Record<string, unknown>>(
    'SELECT admitted, rejected, banned, lists, cancels, list_bytes FROM api_key_usage WHERE key_id = $1',
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

describe('the usage', () => {
  const use = (key: string): Promise<Response> => call(context.service.baseUrl, 'HEAD', '/store/orders', key);
  const isUsed = async (id: string): Promise<boolean> => {
    const { rows } = await context.service.db.query<{ used: boolean }>(
      'SELECT last_used_at IS NOT NULL AS used FROM api_keys WHERE id = $1',
      [id],
    );
    return rows[0]!.used;
  };

  it.each([
    ['it', 'ALTER TABLE api_key_usage RENAME TO elsewhere', 'ALTER TABLE elsewhere RENAME TO api_key_usage'],
    [
      'the last use of keys',
      'REVOKE UPDATE (last_used_at) ON api_keys FROM petstore_service',
      'GRANT UPDATE (last_used_at) ON api_keys TO petstore_service',
    ],
  ])('is kept while %s cannot be written, and written once', async (_what, fail, repair) => {
    const { id, key } = await insertKey(context.service.db);
    await use(key);
    await context.service.db.query(fail);
    await context.service.flushUsage();
    await use(key);
    await context.service.flushUsage();
    await context.service.db.query(repair);
    expect(await usageOf(id)).toBeUndefined();
    await context.service.flushUsage();
    await context.service.flushUsage();
    expect(await usageOf(id)).toEqual({ ...NOTHING, admitted: '2' });
    expect(await isUsed(id)).toBe(true);
  });

  it('is written while another transaction holds the row of the key, whose last use is recorded later', async () => {
    const { id, key } = await insertKey(context.service.db);
    const unlock = await openTransaction(context.service.db, `SELECT FROM api_keys WHERE id = '${id}' FOR UPDATE`);
    await use(key);
    await context.service.flushUsage();
    expect(await usageOf(id)).toEqual({ ...NOTHING, admitted: '1' });
    await unlock();
    expect(await isUsed(id)).toBe(false);
    await use(key);
    await context.service.flushUsage();
    expect(await isUsed(id)).toBe(true);
  });

  it('of thousands of keys is written at once', async () => {
    const recorder = context.service.app.get(UsageRecorder);
    for (let key = 0; key < 2_500; key++) {
      recorder.add(randomUUID(), { banned: 17 });
    }
    await context.service.flushUsage();
    const { rows } = await context.service.db.query('SELECT count(*) FROM api_key_usage WHERE banned = 17');
    expect(rows).toEqual([{ count: '2500' }]);
  });

  it('adds up all counts, and does not deadlock with replicas that write the same keys in another order', async () => {
    const repository = context.service.app.get(UsageRepository);
    const row = { admitted: 1, rejected: 2, banned: 3, lists: 4, cancels: 5, listBytes: 6 };
    const rows = Array.from({ length: 2_000 }, (): UsageRow => ({ ...row, keyId: randomUUID() }));
    await context.service.db.query(
      `INSERT INTO api_keys (id, name, key_prefix, key_hash, plan)
       SELECT id, 'test', 'pst_', sha256(id::text::bytea), 'free' FROM unnest($1::uuid[]) AS id`,
      [rows.map(({ keyId }) => keyId)],
    );
    await Promise.all([rows, rows.toReversed()].flatMap((order) => [1, 2, 3].map(() => repository.addUsage(order))));
    const { rows: sums } = await context.service.db.query(
      `SELECT count(*) AS keys, count(last_used_at) AS used, admitted, rejected, banned, lists, cancels, list_bytes
       FROM api_key_usage JOIN api_keys ON id = key_id WHERE key_id = ANY($1) GROUP BY 3, 4, 5, 6, 7, 8`,
      [rows.map(({ keyId }) => keyId)],
    );
    const each = { admitted: '6', rejected: '12', banned: '18', lists: '24', cancels: '30', list_bytes: '36' };
    expect(sums).toEqual([{ keys: '2000', used: '2000', ...each }]);
  });

  it('is removed after USAGE_RETENTION_DAYS, except for a row that another replica is removing', async () => {
    const { db } = context.service;
    await db.query('DELETE FROM api_key_usage');
    await db.query(
      `INSERT INTO api_key_usage SELECT gen_random_uuid(), CURRENT_DATE - age, 1, 0, 0, 0, 0, 0
       FROM unnest(ARRAY[399, 400, 401, 500]) AS age`,
    );
    const unlock = await openTransaction(db, 'SELECT FROM api_key_usage WHERE day = CURRENT_DATE - 500 FOR UPDATE');
    const agesAfterFlush = async (): Promise<number[]> => {
      await use(context.key);
      await context.service.flushUsage();
      const { rows } = await db.query<{ age: number }>(
        'SELECT CURRENT_DATE - day AS age FROM api_key_usage ORDER BY 1',
      );
      return rows.map(({ age }) => age);
    };
    expect(await agesAfterFlush()).toEqual([0, 399, 400, 500]);
    await unlock();
    expect(await agesAfterFlush()).toEqual([0, 399, 400]);
  });
});

it('a process that is killed has written its usage every ten seconds, and nothing twice', async () => {
  const { id, key } = await insertKey(context.service.db);
  const killed = await ServiceProcess.start({ DATABASE_URL: context.service.url });
  const admitted = async (): Promise<unknown> => (await usageOf(id))?.admitted;
  try {
    await cancelOrder(killed.baseUrl, '1', key);
    await cancelOrder(context.service.baseUrl, '1', key);
    await cancelOrder(killed.baseUrl, '1', key);
    await waitFor(async () => (await admitted()) === '3', 'the usage is written', { withinMs: 60_000 });
    await cancelOrder(context.service.baseUrl, '1', key);
  } finally {
    await killed.stop('SIGKILL');
  }
  await context.service.flushUsage();
  expect(await admitted()).toBe('4');
});
