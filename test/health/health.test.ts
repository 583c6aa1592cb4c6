import { PrismaService } from '../../src/database/prisma.service.js';
import { errorOf } from '../helpers/api.js';
import { createServiceLogin } from '../helpers/service-login.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

const database = useTestDatabase();

describe('health', () => {
  let proxy: TcpProxy;
  let service: TestService;

  beforeAll(async () => {
    proxy = await TcpProxy.start(database.url);
    service = await startTestService({
      database: { ...database, url: proxy.urlFor(database.url) },
      // Nothing listens there.
      environment: { REDIS_URL: 'redis://127.0.0.1:1' },
    });
  });
  afterAll(async () => {
    proxy.restore();
    await service.stop();
    await proxy.close();
  });

  const exported = async (): Promise<number> => (await ServiceMetrics.of(service.app)).sum('petstore_ready');
  const ask = (what: 'live' | 'ready'): Promise<Response> => fetch(`${service.baseUrl}/health/${what}`);

  const isReadyAgain = (): Promise<void> =>
    waitFor(async () => (await ask('ready')).status === 200, 'the service is ready again');

  it('is ready without Redis', async () => {
    const response = await ask('ready');
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({ status: 'ok' });
  });

  it.each<[string, () => unknown]>([
    ['rejects connections', () => proxy.rejectConnections()],
    ['does not respond', () => proxy.stall()],
    ['has no table of orders', () => database.db.query('ALTER TABLE orders RENAME TO hidden')],
  ])('is unready but live while the database %s, and ready when it is available again', async (_how, fail) => {
    await fail();
    const response = await ask('ready');
    expect(response.status).toBe(503);
    expect((await errorOf(response)).code).toBe('service_unavailable');
    expect((await ask('live')).status).toBe(200);
    expect(await exported()).toBe(0);
    proxy.restore();
    await database.db.query('ALTER TABLE IF EXISTS hidden RENAME TO orders');
    await isReadyAgain();
    expect(await exported()).toBe(1);
  });

  it('holds one connection, and one for the archive, however often a silent database is asked for', async () => {
    // Open ones, which wait for longer than new ones.
    const prisma = service.app.get(PrismaService);
    await Promise.all(Array.from({ length: 4 }, () => prisma.$executeRaw`SELECT pg_sleep(0.2)`));
    proxy.stall();
    let connectionsInUse = 0;
    for (let asked = 0; asked < 3; asked++) {
      const [metrics, ready] = await Promise.all([ServiceMetrics.of(service.app), ask('ready')]);
      expect(ready.status).toBe(503);
      ({ connectionsInUse } = metrics);
    }
    proxy.restore();
    // Another one may be removing old usage.
    expect(connectionsInUse).toBeLessThan(4);
    await isReadyAgain();
  });

  it.each(['UPDATE (status) ON orders', 'SELECT (key_hash) ON api_keys'])(
    'is unready while its login lacks %s',
    async (right) => {
      const login = await createServiceLogin(database);
      const limited = await startTestService({ database: { ...database, url: login.url } });
      const status = async (): Promise<number> => (await fetch(`${limited.baseUrl}/health/ready`)).status;
      try {
        expect(await status()).toBe(200);
        await database.db.query(`REVOKE ${right} FROM petstore_service`);
        expect(await status()).toBe(503);
      } finally {
        await database.db.query(`GRANT ${right} TO petstore_service`);
        await limited.stop();
        await login.drop();
      }
    },
  );

  it('is unready before statements that get no response have failed', async () => {
    proxy.stall();
    // On connections of every age.
    const run = (): Promise<unknown> => service.app.get(PrismaService).$executeRaw`SELECT 1`;
    const statements = Array.from({ length: 4 }, () => run().catch(() => 'a statement'));
    expect(await Promise.race([...statements, ask('ready').then(({ status }) => status)])).toBe(503);
    proxy.restore();
    await Promise.all(statements);
    await isReadyAgain();
  });
});
