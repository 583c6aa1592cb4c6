import { errorOf } from '../helpers/api.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

const database = useTestDatabase();
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
