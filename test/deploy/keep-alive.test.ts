import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { startTestService } from '../helpers/test-service.js';

const HAPROXY = /(?<=pool-purge-delay )(\d+)s/;

/** A connection on which the service closes while a cancel is on its way would lose that cancel. */
it.each([
  ['proxies/nginx.conf', /(?<=^ {2}keepalive_timeout )(\d+)s/m, 1],
  // HAProxy halves the number of the connections that it keeps in each period. 15 were measured after 64 connections.
  ['proxies/haproxy.cfg', HAPROXY, 20],
  ['haproxy/haproxy.cfg', HAPROXY, 20],
  ['proxies/Caddyfile', /(?<=keepalive )(\d+)s/, 1],
])('deploy/%s closes idle connections before the service does', async (file, setting, periods) => {
  const service = await startTestService();
  const response = await fetch(`${service.baseUrl}/health/live`, { headers: { connection: 'keep-alive' } });
  await service.stop();
  const [, serviceSeconds] = /timeout=(\d+)/.exec(response.headers.get('keep-alive') ?? '') ?? [];
  const [, seconds] = setting.exec(readFileSync(join(__dirname, '..', '..', 'deploy', file), 'utf8')) ?? [];
  expect(Number(seconds) * periods).toBeLessThan(Number(serviceSeconds));
});

it('KEEP_ALIVE_TIMEOUT_SECONDS is how long the service keeps an idle connection', async () => {
  const service = await startTestService({ environment: { KEEP_ALIVE_TIMEOUT_SECONDS: '120' } });
  const response = await fetch(`${service.baseUrl}/health/live`, { headers: { connection: 'keep-alive' } });
  await service.stop();
  expect(response.headers.get('keep-alive')).toBe('timeout=120');
});
