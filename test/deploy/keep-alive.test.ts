import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { startTestService } from '../helpers/test-service.js';

/** How long the service keeps an idle connection, as it tells each client. */
async function keepAliveOf(environment: Record<string, string> = {}): Promise<string | null> {
  const service = await startTestService({ environment });
  const response = await fetch(`${service.baseUrl}/health/live`, { headers: { connection: 'keep-alive' } });
  await service.stop();
  return response.headers.get('keep-alive');
}

let serviceSeconds: number;
beforeAll(async () => {
  serviceSeconds = Number(/timeout=(\d+)/.exec((await keepAliveOf()) ?? '')?.[1]);
});

/** A connection on which the service closes while a cancel is on its way would lose that cancel. */
it.each([
  ['proxies/nginx.conf', /(?<=^ {2}keepalive_timeout )(\d+)s/m, 1],
  // HAProxy halves the number of the connections that it keeps in each period. 15 were measured after 64 connections.
  ['proxies/haproxy.cfg', /(?<=pool-purge-delay )(\d+)s/, 20],
  ['proxies/Caddyfile', /(?<=keepalive )(\d+)s/, 1],
])('deploy/%s closes idle connections before the service does', (file, setting, periods) => {
  const [, seconds] = setting.exec(readFileSync(join(__dirname, '..', '..', 'deploy', file), 'utf8')) ?? [];
  expect(Number(seconds) * periods).toBeLessThan(serviceSeconds);
});

it('KEEP_ALIVE_TIMEOUT_SECONDS is how long the service keeps an idle connection', async () => {
  expect(await keepAliveOf({ KEEP_ALIVE_TIMEOUT_SECONDS: '120' })).toBe('timeout=120');
});
