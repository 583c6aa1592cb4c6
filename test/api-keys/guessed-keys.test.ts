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

// Look-ups wait for a locked table as long as a test locks it.
const context = useTestService({ environment: { CANCEL_LOCK_TIMEOUT_MS: '30000' } });
beforeEach(() => {
  context.service.clock.advance(3_600_000);
});

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

it('a request whose key cannot be verified gets 503, and counts neither against the key nor against the address', async () => {
  const { service: database } = context;
  const proxy = await TcpProxy.start(database.url);
  const service = await startTestService({ database, environment: { DATABASE_URL: proxy.urlFor(database.url) } });
  const { key } = await insertKey(service.db, { plan: 'free' });
  try {
    expect((await listOrders(service.baseUrl, key)).headers.get('x-ratelimit-remaining')).toBe('59');
    proxy.rejectConnections();
    service.clock.advance(30_000);
    const response = await listOrders(service.baseUrl, key);
    expect((await errorOf(response)).code).toBe('service_unavailable');
    proxy.restore();
    await waitFor(async () => (await listOrders(service.baseUrl, key)).status === 200, 'the database is used again');
    expect((await listOrders(service.baseUrl)).headers.get('x-ratelimit-remaining')).toBe('59');
  } finally {
    await service.stop();
    await proxy.close();
  }
});
