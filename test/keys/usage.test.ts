import type pg from 'pg';
import { ANONYMOUS_ID } from '../../src/plans/plans.js';
import { call, cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { lockOrder, untilLockWaits } from '../helpers/lock-waits.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { startTestService, useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { responseTo } from '../helpers/wire.js';

const NOTHING = { admitted: '0', rejected: '0', banned: '0', lists: '0', cancels: '0', list_bytes: '0' };

const context = useTestService({ environment: { RATE_LIMIT_BAN_THRESHOLD: '3', CANCEL_LOCK_TIMEOUT_MS: '30000' } });

const query = (text: string, values: unknown[] = []): Promise<pg.QueryResult<Record<string, unknown>>> =>
  context.service.db.query(text, values);
const use = (key: string): Promise<Response> => call(context.service.baseUrl, 'HEAD', '/store/orders', key);

/** Over the days, of which there are two when a test runs at midnight. */
async function usageOf(id: string): Promise<Record<string, unknown> | undefined> {
  const { rows } = await query(
    `SELECT sum(admitted) AS admitted, sum(rejected) AS rejected, sum(banned) AS banned,
       sum(lists) AS lists, sum(cancels) AS cancels, sum(list_bytes) AS list_bytes
     FROM api_key_usage WHERE key_id = $1`,
    [id],
  );
  return rows[0];
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

  it('has its lists and the bytes of their bodies as sent', async () => {
    const { baseUrl, port, db } = context.service;
    const { id, key } = await insertKey(db);
    await insertOrder(db);
    const asked = { key, headers: ['Accept-Encoding: gzip'] };
    const { body, headers } = await responseTo(port, 'GET', '/v1/store/orders', asked);
    expect((await listOrders(baseUrl, key, { 'If-None-Match': String(headers.get('etag')) })).status).toBe(304);
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
});

it('the usage of requests without a valid key is one row, without addresses', async () => {
  await query('DELETE FROM api_key_usage');
  await listOrders(context.service.baseUrl);
  await listOrders(context.service.baseUrl, 'not-a-key');
  await context.service.flushUsage();
  const { rows } = await query('SELECT * FROM api_key_usage');
  expect(rows).toEqual([{ key_id: ANONYMOUS_ID, day: expect.any(Date) as Date, ...NOTHING, admitted: '2' }]);
});

it('the last use of a key is recorded when it is admitted', async () => {
  const { db } = context.service;
  const [used, revoked] = [await insertKey(db), await insertKey(db, { revoked_at: new Date() })];
  for (const { key } of [used, revoked]) {
    await use(key);
  }
  await context.service.flushUsage();
  const { rows } = await query('SELECT id FROM api_keys WHERE last_used_at IS NOT NULL');
  expect(rows.map(({ id }) => id)).toContain(used.id);
  expect(rows.map(({ id }) => id)).not.toContain(revoked.id);
});

it('usage is written every ten seconds, added up over processes, and nothing twice when one is killed', async () => {
  const { id, key } = await insertKey(context.service.db);
  const killed = await ServiceProcess.start({ DATABASE_URL: context.service.url });
  const isAdmitted = async (count: string): Promise<boolean> => (await usageOf(id))?.admitted === count;
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

it('usage is removed after USAGE_RETENTION_DAYS', async () => {
  await query('DELETE FROM api_key_usage');
  await query(
    `INSERT INTO api_key_usage SELECT gen_random_uuid(), CURRENT_DATE - age, 1, 0, 0, 0, 0, 0
     FROM unnest(ARRAY[399, 400, 401, 500]) AS age`,
  );
  await use(context.key);
  await context.service.flushUsage();
  const { rows } = await query('SELECT CURRENT_DATE - day AS age FROM api_key_usage ORDER BY 1');
  expect(rows.map(({ age }) => age)).toEqual([0, 399, 400]);
});
