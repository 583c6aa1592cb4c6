import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load, YAML11_SCHEMA } from 'js-yaml';
import { loadConfig } from '../../src/config/config.js';
import { Pools } from '../../src/database/pools.js';
import { Metrics } from '../../src/metrics/metrics.js';

interface ComposeService {
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
}

const read = (path: string): string => readFileSync(join(__dirname, '..', '..', path), 'utf8');

/** Ports are those that other parts of the file use; the two secrets are files. */
const FIXED = ['HOST', 'PORT', 'METRICS_PORT', 'DATABASE_URL', 'REDIS_URL'];
const OTEL_BSP = ['SCHEDULE_DELAY', 'MAX_QUEUE_SIZE', 'MAX_EXPORT_BATCH_SIZE', 'EXPORT_TIMEOUT'];

/** Its services, with `${NAME:-default}` replaced in its values as Compose does with these variables. */
function composeServices(variables: Readonly<Record<string, string>> = {}): Record<string, ComposeService> {
  const parsed = JSON.stringify(load(read('docker-compose.yml'), { schema: YAML11_SCHEMA }));
  const replaced = parsed.replace(
    /\$\{(\w+):-([^}]*)\}/g,
    (_all, name: string, byDefault: string) => variables[name] ?? byDefault,
  );
  return (JSON.parse(replaced) as { services: Record<string, ComposeService> }).services;
}

describe('docker-compose.yml', () => {
  const example = read('.env.example');
  const documented = [
    ...[...example.matchAll(/^#?([A-Z][A-Z0-9_]+)=/gm)].map(([, name = '']) => name),
    ...[...example.matchAll(/\bOTEL_[A-Z_]+[A-Z]\b/g)].map(([name]) => name),
    ...OTEL_BSP.map((name) => `OTEL_BSP_${name}`),
  ].filter((name) => !FIXED.includes(name));

  it.each([
    ['service', { TRUST_PROXY: 'TRUST_PROXY' }],
    ['replica', { TRUST_PROXY: 'REPLICA_TRUST_PROXY', SHUTDOWN_DELAY_SECONDS: 'REPLICA_SHUTDOWN_DELAY_SECONDS' }],
  ])('passes every documented variable to %s', (name, renamed: Readonly<Record<string, string>>) => {
    const variables = Object.fromEntries(documented.map((each) => [renamed[each] ?? each, `value of ${each}`]));
    const { environment } = composeServices(variables)[name]!;
    expect(documented.length).toBeGreaterThan(25);
    expect(environment).toMatchObject(Object.fromEntries(documented.map((each) => [each, `value of ${each}`])));
  });

  it.each(['service', 'replica'])('configures %s like the defaults when nothing is set', (name) => {
    const { environment } = composeServices()[name]!;
    const own = ['DATABASE_URL_FILE', 'REDIS_URL_FILE', 'TRUST_PROXY', 'SHUTDOWN_DELAY_SECONDS'];
    const others = Object.entries(environment!).filter(([each]) => !own.includes(each));
    const url = { DATABASE_URL: 'postgresql://service@postgres/petstore' };
    expect(loadConfig({ ...Object.fromEntries(others), ...url })).toEqual(loadConfig(url));
  });

  it('lets PostgreSQL take the connections of every replica, one more during a rolling update, and the lone service', async () => {
    const { postgres, service } = composeServices();
    const setting = postgres?.command?.find((argument) => argument.startsWith('max_connections='));
    const replicas = Number(/^ {2}server-template replica (\d+) /m.exec(read('deploy/proxies/haproxy.cfg'))?.[1]);
    const own = { DATABASE_URL: 'postgresql://nobody@127.0.0.1:1/none' };
    const { LIST_CONCURRENCY = '' } = service?.environment ?? {};
    const pools = new Pools(loadConfig({ ...own, LIST_CONCURRENCY }), new Metrics());
    await pools.onApplicationShutdown();
    // The `DatabaseListener` has a connection outside the pools.
    const perProcess = pools.main.options.max + pools.list.options.max + pools.image.options.max + 1;
    // Migrations, `petstore` commands and an operator's psql; PostgreSQL reserves 3.
    expect(Number(setting?.split('=')[1])).toBeGreaterThanOrEqual((replicas + 1 + 1) * perProcess + 10 + 3);
  });
});
