import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Counter, Gauge, Registry } from 'prom-client';
import { serveMetrics } from '../../src/http/metrics-server.js';

describe('the metrics server', () => {
  const registry = new Registry();
  let server: Server;
  let port: number;
  const get = (path: string): Promise<Response> => fetch(`http://127.0.0.1:${port}${path}`);

  beforeEach(async () => {
    registry.clear();
    server = await serveMetrics(registry, '127.0.0.1', 0);
    ({ port } = server.address() as AddressInfo);
  });
  afterEach(() => server.close());

  it('serves the registry at /metrics, and nothing else', async () => {
    new Counter({ name: 'tests_total', help: 'Tests.', registers: [registry] }).inc(3);
    const response = await get('/metrics');
    expect([response.status, response.headers.get('content-type')]).toEqual([200, registry.contentType]);
    expect(await response.text()).toContain('tests_total 3\n');
    for (const path of ['/', '/metrics/', '/v1/store/orders']) {
      const other = await get(path);
      const body = { code: 'route_not_found', message: 'Metrics are at /metrics.', status: 404 };
      expect([other.status, await other.json()]).toEqual([404, body]);
    }
  });

  it('returns 500 when a metric cannot be collected', async () => {
    const collect = (): never => {
      throw new Error('secret');
    };
    new Gauge({ name: 'broken', help: 'Broken.', registers: [registry], collect });
    const response = await get('/metrics');
    const body = { code: 'internal_error', message: 'The metrics could not be collected.', status: 500 };
    expect([response.status, await response.json()]).toEqual([500, body]);
  });

  it('rejects when its port is taken', async () => {
    await expect(serveMetrics(registry, '127.0.0.1', port)).rejects.toThrow('EADDRINUSE');
  });
});
