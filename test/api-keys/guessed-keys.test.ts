import { connect } from 'node:net';
import { promisify } from 'node:util';
import { generateKey } from '../../src/api-keys/api-keys.admin.js';
import { cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { lockTable, untilLockWaits } from '../helpers/lock-waits.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { startTestService, useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

let warnings: unknown[] = [];
const logger = {
  log: () => undefined,
  warn: (message: unknown) => void warnings.push(message),
  error: () => undefined,
};
// Look-ups wait for a locked table for longer than for their statement to start.
const context = useTestService({ environment: { CANCEL_LOCK_TIMEOUT_MS: '30000' }, logger });
beforeEach(() => {
  context.service.clock.advance(3_600_000);
});

/** A notification that arrives during the first look-up of a key keeps it out of the cache. */
async function untilCached(key: string, { app, baseUrl } = context.service): Promise<void> {
  const lookups = async (): Promise<number> =>
    (await ServiceMetrics.of(app)).sum('petstore_api_key_lookups_total', 'database');
  await waitFor(async () => {
    const before = await lookups();
    await cancelOrder(baseUrl, '404404', key);
    return (await lookups()) === before;
  }, 'the key is cached');
}

describe('guessed keys', () => {
  it('are rejected and get the address banned, and valid keys from the same address still work', async () => {
    const [used, unused] = [await insertKey(context.service.db), await insertKey(context.service.db)];
    const [order, other] = [await insertOrder(context.service.db), await insertOrder(context.service.db)];
    await listOrders(context.service.baseUrl, used.key);
    const codes: string[] = [];
    for (let guess = 0; guess < 300; guess++) {
      if (codes.at(-1) === 'rate_limit_exceeded') {
        // Later than what may have been in flight at the first rejection.
        context.service.clock.advance(200);
      }
      codes.push((await errorOf(await listOrders(context.service.baseUrl, generateKey()))).code);
    }
    expect(codes.filter((code) => code === 'invalid_api_key')).toHaveLength(60);
    expect(codes.at(-1)).toBe('address_banned');
    expect((await cancelOrder(context.service.baseUrl, order, used.key)).status).toBe(204);
    // Not in the cache of this process.
    expect((await cancelOrder(context.service.baseUrl, other, unused.key)).status).toBe(204);
  });

  it('that wait for longer than a second get 503, which counts against nobody, and valid keys work meanwhile', async () => {
    const { service } = context;
    const { key: used } = await insertKey(service.db);
    await untilCached(used);
    warnings = [];
    // As long as the table is locked, look-ups do not end.
    const unlock = await lockTable(service.db, 'api_keys');
    const guess = (): Promise<Response> => listOrders(service.baseUrl, generateKey());
    const guesses: Promise<Response>[] = [];
    for (const statements of [1, 2]) {
      guesses.push(guess());
      await untilLockWaits(service.db, statements);
    }
    guesses.push(...Array.from({ length: 4 }, guess));
    const busy = await Promise.race(guesses);
    expect((await errorOf(busy)).code).toBe('service_unavailable');
    expect([busy.headers.get('retry-after'), busy.headers.get('x-ratelimit-remaining')]).toEqual(['1', '60']);
    expect((await listOrders(service.baseUrl, used)).status).toBe(200);
    await unlock();
    const statuses = (await Promise.all(guesses)).map(({ status }) => status);
    expect(statuses.sort()).toEqual([401, 401, 503, 503, 503, 503]);
    // They time out together; beside it, each request has its own line.
    expect(warnings).toEqual(['service unavailable']);
    // The two that were looked up, and this request.
    expect((await listOrders(service.baseUrl)).headers.get('x-ratelimit-remaining')).toBe('57');
  });

  it('delay no valid key of the same address, however many are in flight', async () => {
    const { service } = context;
    const { key } = await insertKey(service.db);
    const unlock = await lockTable(service.db, 'api_keys');
    const guesses = Array.from({ length: 500 }, () => listOrders(service.baseUrl, generateKey()));
    await untilLockWaits(service.db);
    await unlock();
    expect((await listOrders(service.baseUrl, key)).status).toBe(200);
    const statuses = (await Promise.all(guesses)).map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([401, 429]));
  });

  it('that were revoked count against the address although the client resets the connection during the look-up', async () => {
    const revoked = await insertKey(context.service.db, { revoked_at: new Date() });
    const unlock = await lockTable(context.service.db, 'api_keys');
    const socket = connect(context.service.port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write(`GET /v1/store/orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${revoked.key}\r\n\r\n`);
    await untilLockWaits(context.service.db);
    const server = context.service.app.getHttpServer();
    const connections = promisify(server.getConnections.bind(server));
    const before = await connections();
    socket.resetAndDestroy();
    await waitFor(async () => (await connections()) < before, 'the server has noticed the reset');
    const counted = async (): Promise<number> =>
      (await ServiceMetrics.of(context.service.app)).sum('petstore_limiter_decisions_total', 'plan="anonymous"');
    const countedBefore = await counted();
    await unlock();
    await waitFor(async () => (await counted()) > countedBefore, 'the request is counted');
    const { headers } = await listOrders(context.service.baseUrl);
    expect(headers.get('x-ratelimit-remaining')).toBe('58');
  });
});

it('a key that cannot be verified counts against its last known plan, and gets 503 within its limits and 429 beyond', async () => {
  const { service: database } = context;
  const proxy = await TcpProxy.start(database.url);
  const service = await startTestService({ database, environment: { DATABASE_URL: proxy.urlFor(database.url) } });
  const { key } = await insertKey(service.db, {
    plan: 'enterprise',
    requests_per_minute: 2,
    requests_per_day: 1_000,
  });
  try {
    await untilCached(key, service);
    service.clock.advance(60_000);
    proxy.rejectConnections();
    const responses: unknown[] = [];
    for (let request = 0; request < 3; request++) {
      const response = await cancelOrder(service.baseUrl, '404404', key);
      const limits = ['limit', 'remaining'].map((name) => response.headers.get(`x-ratelimit-${name}`));
      responses.push([(await errorOf(response)).code, ...limits]);
    }
    expect(responses).toEqual([
      ['service_unavailable', '2', '1'],
      ['service_unavailable', '2', '0'],
      ['rate_limit_exceeded', '2', '0'],
    ]);
  } finally {
    await service.stop();
    await proxy.close();
  }
});
