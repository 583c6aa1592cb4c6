import { isDeepStrictEqual } from 'node:util';
import { errorOf } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { ServiceProcess } from '../helpers/service-process.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

/** Longer than every timeout of the service for its database. */
const RESPONSE_TIME_MAX_MS = 10_000;

const OPERATIONS = {
  list: { method: 'GET', path: '', headers: {}, status: 200 },
  poll: { method: 'GET', path: '', headers: { 'If-None-Match': '*' }, status: 304 },
  head: { method: 'HEAD', path: '', headers: {}, status: 200 },
  cancel: { method: 'DELETE', path: '/404', headers: {}, status: 404 },
} as const;

/** The outcome of each operation as one line. */
type Outcomes = Record<keyof typeof OPERATIONS, string>;

const NORMAL: Outcomes = { list: '200', poll: '304', head: '200', cancel: '404 order_not_found' };

/** With `Retry-After` and the three limit headers. */
const UNAVAILABLE: Outcomes = {
  list: '503 service_unavailable, retry after 1, limits',
  poll: '503 service_unavailable, retry after 1, limits',
  head: '503, retry after 1, limits',
  cancel: '503 service_unavailable, retry after 1, limits',
};

const database = useTestDatabase();
/** A key that the service looks up before the database fails. */
let key: string;

beforeAll(async () => {
  await insertOrder(database.db, { id: '1' });
  ({ key } = await insertKey(database.db));
});

/** Sends all operations concurrently. */
async function responses(baseUrl: string, apiKey: string): Promise<Outcomes> {
  const lines = Object.entries(OPERATIONS).map(async ([name, { method, path, headers }]) => {
    const response = fetch(`${baseUrl}/v1/store/orders${path}`, {
      method,
      headers: { Authorization: `Bearer ${apiKey}`, ...headers },
      signal: AbortSignal.timeout(RESPONSE_TIME_MAX_MS),
    });
    return [name, await response.then(lineOf, (error: unknown) => `no response: ${String(error)}`)] as const;
  });
  return Object.fromEntries(await Promise.all(lines)) as Outcomes;
}

async function lineOf(response: Response): Promise<string> {
  const body = await response.text();
  const code = /"code":"(\w+)"/.exec(body)?.[1];
  const line = code === undefined ? String(response.status) : `${response.status} ${code}`;
  if (response.status !== 503) {
    return line;
  }
  const { headers } = response;
  const hasLimits = ['limit', 'remaining', 'reset'].every((name) => headers.has(`x-ratelimit-${name}`));
  return `${line}, retry after ${headers.get('retry-after') ?? '?'}, ${hasLimits ? 'limits' : 'no limits'}`;
}

it('open database connections get no response: 503 within 10 seconds', async () => {
  const proxy = await TcpProxy.start(database.url);
  const service = await startTestService({ database, environment: { DATABASE_URL: proxy.urlFor(database.url) } });
  try {
    const { key: uncachedKey } = await insertKey(database.db);
    // Caches the other key, and leaves an idle connection in each pool.
    await responses(service.baseUrl, key);
    proxy.stall();
    const [known, unknown] = [responses(service.baseUrl, key), responses(service.baseUrl, uncachedKey)];
    expect([await known, await unknown]).toEqual([UNAVAILABLE, UNAVAILABLE]);
  } finally {
    // Closes the connections of pending requests, so that the service can stop.
    await proxy.close();
    await service.stop();
  }
});

// In its own process, because an unhandled error would end it.
it('database connections break while operations wait for them, and while they are idle: 503, and the service goes on', async () => {
  const proxy = await TcpProxy.start(database.url);
  const service = await ServiceProcess.start({ DATABASE_URL: proxy.urlFor(database.url) });
  try {
    await responses(service.baseUrl, key);
    const { key: uncachedKey } = await insertKey(database.db);
    for (const apiKey of [key, uncachedKey]) {
      const sentBefore = proxy.bytesFromClients;
      proxy.stall();
      const waiting = responses(service.baseUrl, apiKey);
      await waitFor(() => proxy.bytesFromClients > sentBefore, 'a query has been sent');
      proxy.rejectConnections();
      expect(await waiting).toEqual(UNAVAILABLE);
      expect(await responses(service.baseUrl, apiKey)).toEqual(UNAVAILABLE);
      proxy.restore();
      // So that the pool of the image has a connection.
      await database.db.query('SELECT renew_order_list_versions()');
      expect(await responses(service.baseUrl, apiKey)).toEqual(NORMAL);
      proxy.rejectConnections();
      proxy.restore();
      const isNormal = async (): Promise<boolean> =>
        isDeepStrictEqual(await responses(service.baseUrl, apiKey), NORMAL);
      await waitFor(isNormal, 'operations succeed');
    }
  } finally {
    await service.stop('SIGKILL');
    await proxy.close();
  }
});

describe('readiness', () => {
  let proxy: TcpProxy;
  let service: TestService;

  beforeAll(async () => {
    proxy = await TcpProxy.start(database.url);
    service = await startTestService({
      database: { ...database, url: proxy.urlFor(database.url) },
      // Nothing listens there: it is ready without Redis.
      environment: { REDIS_URL: 'redis://127.0.0.1:1' },
    });
  });
  afterAll(async () => {
    proxy.restore();
    await service.stop();
    await proxy.close();
  });

  const metrics = (): Promise<ServiceMetrics> => ServiceMetrics.of(service.app);
  const ask = (what: 'live' | 'ready'): Promise<Response> => fetch(`${service.baseUrl}/health/${what}`);

  async function untilReady(): Promise<void> {
    await waitFor(async () => (await ask('ready')).status === 200, 'the service is ready');
    expect((await metrics()).sum('petstore_ready')).toBe(1);
  }

  const sql = (statement: string): Promise<unknown> => database.db.query(statement);
  const revoked = (right: string): [string, () => unknown, () => unknown] => [
    `has revoked ${right}`,
    () => sql(`REVOKE ${right} FROM petstore_service`),
    () => sql(`GRANT ${right} TO petstore_service`),
  ];

  it.each<[string, () => unknown, () => unknown]>([
    ['rejects connections', () => proxy.rejectConnections(), () => proxy.restore()],
    ['does not respond', () => proxy.stall(), () => proxy.restore()],
    revoked('UPDATE (status) ON orders'),
  ])('the service is unready but live while the database %s, and ready afterwards', async (_how, fail, repair) => {
    await untilReady();
    await fail();
    const response = await ask('ready');
    expect(response.status).toBe(503);
    expect((await errorOf(response)).code).toBe('service_unavailable');
    expect((await ask('live')).status).toBe(200);
    expect((await metrics()).sum('petstore_ready')).toBe(0);
    await repair();
    await untilReady();
  });
});
