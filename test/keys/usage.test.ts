import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { ANONYMOUS_ID } from '../../src/plans/plans.js';
import { UsageRecorder } from '../../src/usage/usage-recorder.js';
import { UsageRepository } from '../../src/usage/usage.repository.js';
import type { UsageRow } from '../../src/usage/usage-counts.js';
import { call, cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { lockOrder, openTransaction, untilLockWaits } from '../helpers/lock-waits.js';
import { requestRaw } from '../helpers/raw-http.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { startTestService, useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { exchange } from '../helpers/wire.js';

const NOTHING = { admitted: '0', rejected: '0', banned: '0', lists: '0', cancels: '0', list_bytes: '0' };

const context = useTestService({ environment: { RATE_LIMIT_BAN_THRESHOLD: '3', CANCEL_LOCK_TIMEOUT_MS: '30000' } });

const query = (text: string, values: unknown[] = []): Promise<pg.QueryResult<Record<string, unknown>>> =>
  context.service.db.query(text, values);
const use = (key: string): Promise<Response> => call(context.service.baseUrl, 'HEAD', '/store/orders', key);

async function usageOf(id: string): Promise<unknown> {
  const { rows } = await query(
    'SELECT admitted, rejected, banned, lists, cancels, list_bytes FROM api_key_usage WHERE key_id = $1',
    [id],
  );
  return rows[0];
}

async function lastUsedAt(id: string): Promise<Date | null> {
  const { rows } = await query('SELECT last_used_at FROM api_keys WHERE id = $1', [id]);
  return rows[0]?.last_used_at as Date | null;
}

describe('the usage of a key', () => {
  it('has its admitted, rejected and banned requests, and those of no other key', async () => {
    const { db, clock } = context.service;
    const [small, other] = [await insertKey(db, { requests_per_minute: 5, requests_per_day: 99 }), await insertKey(db)];
    await use(other.key);
    for (let request = 0; request < 5 + 2 + 4; request++) {
      if (request > 5) {
        // Later than what may have been in flight at the first rejection.
        clock.advance(2_000);
      }
      await use(small.key);
    }
    await context.service.flushUsage();
    expect(await usageOf(small.id)).toEqual({ ...NOTHING, admitted: '5', rejected: '2', banned: '4' });
    expect(await usageOf(other.id)).toEqual({ ...NOTHING, admitted: '1' });
  });

  it.each(['gzip', 'identity'])('has its lists and the bytes of their %s bodies as sent', async (encoding) => {
    const { baseUrl, db } = context.service;
    const { id, key } = await insertKey(db);
    await insertOrder(db);
    const { body, headers } = await requestRaw(baseUrl, { key, headers: { 'Accept-Encoding': encoding } });
    expect((await listOrders(baseUrl, key, { 'If-None-Match': String(headers.etag) })).status).toBe(304);
    await use(key);
    await context.service.flushUsage();
    expect(body.length).toBeGreaterThan(50);
    expect(await usageOf(id)).toEqual({ ...NOTHING, admitted: '3', lists: '2', list_bytes: String(body.length) });
  });

  it('has the orders that it cancelled, and not the cancels that failed', async () => {
    const { id, key } = await insertKey(context.service.db);
    const order = await insertOrder(context.service.db);
    for (const wanted of [order, order, '987654321']) {
      await cancelOrder(context.service.baseUrl, wanted, key);
    }
    await context.service.flushUsage();
    expect(await usageOf(id)).toEqual({ ...NOTHING, admitted: '3', cancels: '1' });
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

  it('stays when the key is deleted', async () => {
    const { id, key } = await insertKey(context.service.db);
    await use(key);
    await query('DELETE FROM api_keys WHERE id = $1', [id]);
    await context.service.flushUsage();
    expect(await usageOf(id)).toEqual({ ...NOTHING, admitted: '1' });
  });
});

it('the usage of requests without a valid key is one row, without addresses', async () => {
  await query('DELETE FROM api_key_usage');
  await listOrders(context.service.baseUrl);
  await listOrders(context.service.baseUrl, 'not-a-key');
  // Never becomes a request.
  await exchange(context.service.port, 'GET /v1/store/orders HTTP/1.1\r\nBad Header\r\n\r\n', { until: 'closed' });
  await context.service.flushUsage();
  const { rows } = await query('SELECT * FROM api_key_usage');
  expect(rows).toEqual([{ key_id: ANONYMOUS_ID, day: expect.any(Date) as Date, ...NOTHING, admitted: '2' }]);
});

describe('the last use of a key', () => {
  it('is recorded for a key that is admitted, at most once a minute, and notifies nobody', async () => {
    const { db, url } = context.service;
    const [used, recent, old, unused, revoked] = await Promise.all([
      ...[1, 2, 3, 4].map(() => insertKey(db)),
      insertKey(db, { revoked_at: new Date() }),
    ]);
    const agesOf = 'UPDATE api_keys SET last_used_at = now() - $2::interval WHERE id = $1 RETURNING last_used_at';
    await query(agesOf, [recent!.id, '50 seconds']);
    await query(agesOf, [old!.id, '61 seconds']);
    const before = await lastUsedAt(recent!.id);
    const received: (string | undefined)[] = [];
    const listener = new pg.Client(url);
    await listener.connect();
    listener.on('notification', ({ payload }) => received.push(payload));
    await listener.query('LISTEN api_key_changed');

    const start = Date.now();
    for (const { key } of [used, recent!, old!, revoked!]) {
      await use(key);
    }
    await context.service.flushUsage();
    expect((await lastUsedAt(used.id))?.getTime()).toBeGreaterThanOrEqual(start - 1);
    expect((await lastUsedAt(old!.id))?.getTime()).toBeGreaterThanOrEqual(start - 1);
    expect(await lastUsedAt(recent!.id)).toEqual(before);
    expect([await lastUsedAt(unused!.id), await lastUsedAt(revoked!.id)]).toEqual([null, null]);
    await query("SELECT pg_notify('api_key_changed', 'end')");
    await waitFor(() => received.includes('end'), 'the last notification arrives');
    await listener.end();
    expect(received).toEqual(['end']);
  });

  it('is recorded later while another transaction holds its row, and usage is written meanwhile', async () => {
    const { id, key } = await insertKey(context.service.db);
    const unlock = await openTransaction(context.service.db, `SELECT FROM api_keys WHERE id = '${id}' FOR UPDATE`);
    await use(key);
    await context.service.flushUsage();
    expect(await usageOf(id)).toEqual({ ...NOTHING, admitted: '1' });
    await unlock();
    expect(await lastUsedAt(id)).toBeNull();
    await use(key);
    await context.service.flushUsage();
    expect(await lastUsedAt(id)).toBeInstanceOf(Date);
  });
});

describe('usage is written', () => {
  it('once, after a time in which it could not be', async () => {
    const { id, key } = await insertKey(context.service.db);
    await use(key);
    await query('REVOKE UPDATE (last_used_at) ON api_keys FROM petstore_service');
    await context.service.flushUsage();
    await use(key);
    await context.service.flushUsage();
    await query('GRANT UPDATE (last_used_at) ON api_keys TO petstore_service');
    expect(await usageOf(id)).toBeUndefined();
    await context.service.flushUsage();
    await context.service.flushUsage();
    expect(await usageOf(id)).toEqual({ ...NOTHING, admitted: '2' });
    expect(await lastUsedAt(id)).toBeInstanceOf(Date);
  });

  it('at once for thousands of keys', async () => {
    const recorder = context.service.app.get(UsageRecorder);
    for (let key = 0; key < 2_500; key++) {
      recorder.add(randomUUID(), { banned: 17 });
    }
    await context.service.flushUsage();
    expect((await query('SELECT count(*) FROM api_key_usage WHERE banned = 17')).rows).toEqual([{ count: '2500' }]);
  });

  it('without a deadlock with replicas that write the same keys in another order, and adds up', async () => {
    const repository = context.service.app.get(UsageRepository);
    const row = { admitted: 1, rejected: 2, banned: 3, lists: 4, cancels: 5, listBytes: 6 };
    const rows = Array.from({ length: 2_000 }, (): UsageRow => ({ ...row, keyId: randomUUID() }));
    const ids = rows.map(({ keyId }) => keyId);
    await query(
      `INSERT INTO api_keys (id, name, key_prefix, key_hash, plan)
       SELECT id, 'test', 'pst_', sha256(id::text::bytea), 'free' FROM unnest($1::uuid[]) AS id`,
      [ids],
    );
    await Promise.all([rows, rows.toReversed()].flatMap((order) => [1, 2, 3].map(() => repository.addUsage(order))));
    const { rows: sums } = await query(
      `SELECT count(*) AS keys, count(last_used_at) AS used, admitted, rejected, banned, lists, cancels, list_bytes
       FROM api_key_usage JOIN api_keys ON id = key_id WHERE key_id = ANY($1) GROUP BY 3, 4, 5, 6, 7, 8`,
      [ids],
    );
    const each = { admitted: '6', rejected: '12', banned: '18', lists: '24', cancels: '30', list_bytes: '36' };
    expect(sums).toEqual([{ keys: '2000', used: '2000', ...each }]);
  });

  it('every ten seconds by a process, and nothing twice when it is killed', async () => {
    const { id, key } = await insertKey(context.service.db);
    const killed = await ServiceProcess.start({ DATABASE_URL: context.service.url });
    const isAdmitted = async (count: string): Promise<boolean> =>
      ((await usageOf(id)) as { admitted: string } | undefined)?.admitted === count;
    try {
      await cancelOrder(killed.baseUrl, '1', key);
      await cancelOrder(context.service.baseUrl, '1', key);
      await cancelOrder(killed.baseUrl, '1', key);
      await context.service.flushUsage();
      await waitFor(() => isAdmitted('3'), 'the usage is written', { withinMs: 60_000 });
    } finally {
      await killed.stop('SIGKILL');
    }
    await context.service.flushUsage();
    expect(await isAdmitted('3')).toBe(true);
  });
});

it('usage is removed after USAGE_RETENTION_DAYS, except for a row that another replica is removing', async () => {
  const { db } = context.service;
  await query('DELETE FROM api_key_usage');
  await query(
    `INSERT INTO api_key_usage SELECT gen_random_uuid(), CURRENT_DATE - age, 1, 0, 0, 0, 0, 0
     FROM unnest(ARRAY[399, 400, 401, 500]) AS age`,
  );
  const unlock = await openTransaction(db, 'SELECT FROM api_key_usage WHERE day = CURRENT_DATE - 500 FOR UPDATE');
  const agesAfterFlush = async (): Promise<unknown[]> => {
    await use(context.key);
    await context.service.flushUsage();
    const { rows } = await query('SELECT CURRENT_DATE - day AS age FROM api_key_usage ORDER BY 1');
    return rows.map(({ age }) => age);
  };
  expect(await agesAfterFlush()).toEqual([0, 399, 400, 500]);
  await unlock();
  expect(await agesAfterFlush()).toEqual([0, 399, 400]);
});
