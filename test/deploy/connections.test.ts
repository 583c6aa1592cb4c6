import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadConfig } from '../../src/config/config.js';
import { Pools } from '../../src/database/pools.js';
import { Metrics } from '../../src/metrics/metrics.js';
import { composeServices } from '../helpers/compose.js';

const ROOT = join(__dirname, '..', '..');

const services = composeServices();

/** The `DatabaseListener` has a connection outside the pools. */
const LISTENER_CONNECTIONS = 1;
/** Migrations, `petstore` commands and an operator's psql. */
const COMMAND_CONNECTIONS = 10;
/** PostgreSQL's default of `superuser_reserved_connections`. */
const RESERVED_CONNECTIONS = 3;

describe('max_connections in docker-compose.yml', () => {
  it('covers every replica that the balancer has a slot for, one more during a rolling update, and the lone service', async () => {
    const replicas = Number(/^ {2}server-template replica (\d+) /m.exec(read('deploy/haproxy/haproxy.cfg'))?.[1]);
    const processes = replicas + 1 + 1;
    expect(maxConnections()).toBeGreaterThanOrEqual(
      processes * (await connectionsPerProcess()) + COMMAND_CONNECTIONS + RESERVED_CONNECTIONS,
    );
  });

  it('is stated in docs/operations.md together with the connections of one process', async () => {
    const runbook = read('docs/operations.md');
    expect(runbook).toContain(`\`max_connections\` to ${maxConnections()}`);
    expect(runbook).toContain(`${await connectionsPerProcess()} connections`);
  });
});

function maxConnections(): number {
  const setting = services.postgres?.command?.find((argument) => argument.startsWith('max_connections='));
  return Number(setting?.split('=')[1]);
}

async function connectionsPerProcess(): Promise<number> {
  const listConcurrency = services.service?.environment?.LIST_CONCURRENCY ?? '';
  const pools = new Pools(
    loadConfig({
      DATABASE_URL: 'postgresql://nobody@127.0.0.1:1/none',
      LIST_CONCURRENCY: listConcurrency,
    }),
    new Metrics(),
  );
  const { main, list } = pools;
  await pools.onApplicationShutdown();
  return main.options.max + list.options.max + LISTENER_CONNECTIONS;
}

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}
