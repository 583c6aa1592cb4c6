import { chmodSync, mkdirSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { cancelOrder } from '../helpers/api.js';
import { describeWith } from '../helpers/describe-with.js';
import { FailingPostgres } from '../helpers/failing-postgres.js';
import { listen } from '../helpers/listen.js';
import { HAPROXY_OF_COMPOSE, ProxyProcess } from '../helpers/shipped-proxies.js';
import { RawClient } from '../helpers/raw-client.js';
import { describeWithRedis, RedisServer } from '../helpers/redis-server.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { startTestService, useTestService } from '../helpers/test-service.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';
import { waitFor } from '../helpers/wait-for.js';

describeWithRedis('the service exports for alerts', () => {
  let redis: RedisServer;
  const environment: Record<string, string> = {};
  beforeAll(async () => {
    redis = await RedisServer.start();
    environment.REDIS_URL = redis.url;
  });
  afterAll(() => redis.stop());
  const context = useTestService({ environment });

  async function metric(name: string): Promise<number> {
    return (await ServiceMetrics.of(context.service.app)).sum(name);
  }

  it('that it counts without Redis', async () => {
    expect(await metric('petstore_limiter_store_degraded')).toBe(0);
    await redis.kill();
    await waitFor(async () => {
      await cancelOrder(context.service.baseUrl, '1', context.key);
      return (await metric('petstore_limiter_store_degraded')) === 1;
    }, 'the service counts without Redis');
    await redis.restart();
  });

  it('that it cannot write the usage', async () => {
    await cancelOrder(context.service.baseUrl, '1', context.key);
    await context.service.db.query('ALTER TABLE api_key_usage RENAME TO elsewhere');
    await context.service.flushUsage();
    await context.service.db.query('ALTER TABLE elsewhere RENAME TO api_key_usage');
    expect(await metric('petstore_usage_flush_failures_total')).toBe(1);
  });
});

describe('the archive of PostgreSQL', () => {
  const folder = useTemporaryFolder('archive');

  it('is exported as failing, with the rights of the service, until it succeeds', async () => {
    const archive = join(folder, 'archive');
    const command = `test -d ${archive} && cp %p ${archive}/%f`;
    const postgres = await FailingPostgres.create({ archive_mode: 'on', archive_command: command });
    const db = postgres.pool(1);
    const service = await startTestService({ database: { url: postgres.serviceUrl, db, drop: () => db.end() } });
    const failing = async (): Promise<number> =>
      (await ServiceMetrics.of(service.app)).sum('petstore_wal_archive_failing');
    try {
      expect(await failing()).toBe(0);
      await db.query('SELECT pg_switch_wal()');
      await waitFor(async () => (await failing()) === 1, 'the archive fails', { withinMs: 30_000 });

      await postgres.stop();
      expect(await failing()).toBe(1);

      chmodSync(folder, 0o755);
      mkdirSync(archive);
      chmodSync(archive, 0o777);
      await postgres.start();
      await waitFor(async () => (await failing()) === 0, 'the archive succeeds', { withinMs: 30_000 });
    } finally {
      await service.stop();
      await db.end();
      await postgres.discard();
    }
  });
});

describeWith('haproxy')('HAProxy exports', () => {
  const held: ServerResponse[] = [];
  /** In the place of the service: holds each request until the test ends it. */
  const upstream = createServer(({ url }, response) => {
    if (url === '/held') {
      held.push(response);
    } else {
      response.writeHead(url === '/unavailable' ? 503 : 200).end();
    }
  });
  let port: number;
  let proxy: ProxyProcess;
  beforeAll(async () => {
    port = await listen(upstream);
  });
  afterEach(() => proxy.stop());
  afterAll(() => {
    upstream.closeAllConnections();
    upstream.close();
  });

  /** With one value of the shipped file changed, so that a few clients suffice. */
  async function startProxy(original: string, changed: string): Promise<void> {
    const command: typeof HAPROXY_OF_COMPOSE.command = (config, options) =>
      HAPROXY_OF_COMPOSE.command(config.replace(original, changed), options);
    proxy = await ProxyProcess.start({ ...HAPROXY_OF_COMPOSE, command }, [port]);
    const isForwarded = (): Promise<boolean> =>
      request('/ready').then(
        ({ status }) => status === 200,
        () => false,
      );
    await waitFor(isForwarded, () => `HAProxy forwards: ${proxy.log}`);
  }

  const request = (path: string): Promise<Response> => fetch(`http://127.0.0.1:${proxy.port}${path}`);

  async function metric(name: string): Promise<number> {
    return (await ServiceMetrics.scrape(proxy.metricsPort)).sum(`haproxy_backend_${name}`, 'proxy="replicas"');
  }

  it('the requests that wait and its own 503, but not those of the service, while clients hold all that it forwards', async () => {
    await startProxy('maxconn 900', 'maxconn 2');
    const before = await metric('connection_errors_total');
    expect((await request('/unavailable')).status).toBe(503);
    const forwarded = [request('/held'), request('/held')];
    await waitFor(() => held.length === 2, 'two requests are held');
    const waiting = [request('/'), request('/'), request('/')];
    await waitFor(async () => (await metric('current_queue')) === 3, 'three requests wait');
    expect(await metric('connection_errors_total')).toBe(before);
    expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual([503, 503, 503]);
    expect([await metric('current_queue'), await metric('connection_errors_total')]).toEqual([0, before + 3]);
    for (const response of held) {
      response.end();
    }
    expect((await Promise.all(forwarded)).map(({ status }) => status)).toEqual([200, 200]);
    expect((await request('/')).status).toBe(200);
  });

  it('that clients hold all its connections, or does not respond any more', async () => {
    await startProxy('maxconn 4000', 'maxconn 40');
    const isFull = (): Promise<boolean> =>
      ServiceMetrics.scrape(proxy.metricsPort).then(
        (metrics) =>
          metrics.sum('haproxy_process_current_connections') / metrics.sum('haproxy_process_max_connections') > 0.95,
        () => true,
      );
    const clients: RawClient[] = [];
    await waitFor(async () => {
      clients.push(await RawClient.open(proxy.port));
      return isFull();
    }, 'all connections are open');
    expect(clients.length).toBeGreaterThan(20);
    for (const { socket } of clients) {
      socket.destroy();
    }
    await waitFor(async () => !(await isFull()), 'the connections are closed');
  });
});
