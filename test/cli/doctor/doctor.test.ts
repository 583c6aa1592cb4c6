import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import type { Clock } from '../../../src/common/clock.js';
import { type Check, type Checks, runChecks } from '../../../src/cli/doctor/run-checks.js';
import { insertKey } from '../../helpers/builders.js';
import { freePort } from '../../helpers/free-port.js';
import { petstore } from '../../helpers/petstore.js';
import { administrate } from '../../helpers/redis-limits.js';
import { describeWithRedis, RedisServer } from '../../helpers/redis-server.js';
import { createServiceLogin, type ServiceLogin } from '../../helpers/service-login.js';
import { createTestDatabase, type TestDatabase } from '../../helpers/test-database.js';
import { startTestService } from '../../helpers/test-service.js';

const UNREACHABLE = 'not checked: the database is unreachable or does not respond';
const DAY_MS = 86_400_000;
const aDayAhead = { now: () => Date.now() + DAY_MS + 1_000 };

let database: TestDatabase;
let login: ServiceLogin;
let ports: Readonly<Record<string, string>>;

beforeAll(async () => {
  database = await createTestDatabase();
  login = await createServiceLogin(database);
  ports = { PORT: String(await freePort()), METRICS_PORT: String(await freePort()) };
});
afterAll(async () => {
  await login.drop();
  await database.drop();
});

const matching = (message: string | RegExp): unknown => expect.stringMatching(message);

/** The checks that are neither `ok` nor skipped, by name. */
function problemsOf({ checks }: Checks): Record<string, Check> {
  return Object.fromEntries(
    checks.filter(({ status }) => status === 'warning' || status === 'error').map((check) => [check.name, check]),
  );
}

/** Runs the checks with the login of the service. */
const check = (variables: Readonly<Record<string, string>> = {}, clock?: Clock): Promise<Checks> =>
  runChecks({ DATABASE_URL: login.url, ...ports, ...variables }, clock);

async function problems(variables?: Readonly<Record<string, string>>): Promise<Record<string, Check>> {
  return problemsOf(await check(variables));
}

function messagesOf({ checks }: Checks): Record<string, string> {
  return Object.fromEntries(checks.map(({ name, status, message }) => [name, `${status}: ${message}`]));
}

describe('petstore doctor', () => {
  it('exits with 0 for a deployment without problems, as JSON and as text', async () => {
    const json = await petstore(['doctor', '--json'], { DATABASE_URL: login.url, ...ports });
    const diagnosis = JSON.parse(json.stdout) as Checks;
    expect(problemsOf(diagnosis)).toEqual({});
    expect({ ...json, stdout: '' }).toEqual({ exitCode: 0, stdout: '', stderr: '' });
    expect(messagesOf(diagnosis)).toMatchObject({
      configuration: 'ok: valid, for development',
      schema: 'ok: as the migrations made it',
      role: `ok: "${login.role}" has what the service needs and nothing else`,
      list: 'ok: served from versions',
      'clock of PostgreSQL': 'ok: the same as of this host, within a second',
      port: `ok: nothing listens on 127.0.0.1:${ports.PORT}`,
      'expiring keys': 'ok: none within 30 days',
    });
    const text = await petstore(['doctor'], { DATABASE_URL: login.url, ...ports });
    expect(text.exitCode).toBe(0);
    expect(text.stdout).toMatch(/^ok {7}configuration {8}valid, for development\n/);
  });

  it('reports invalid variables together, without a secret', async () => {
    const secret = 'hunter2';
    const { exitCode, stdout } = await petstore(['doctor', '--json'], {
      NODE_ENV: 'production',
      DATABASE_URL: login.url,
      PORT: 'abc',
      LOG_LEVEL: 'loud',
      REDIS_URL: `http://user:${secret}@redis`,
    });
    expect(exitCode).toBe(2);
    const { checks } = JSON.parse(stdout) as Checks;
    expect(checks).toMatchObject([
      {
        name: 'configuration',
        message: matching(/^REDIS_URL must be .*; PORT must be .* \(got "abc"\); LOG_LEVEL must be .* \(got "loud"\)$/),
      },
    ]);
    expect(stdout).not.toContain(secret);
  });
});

/** Effects that last for one run of the checks. LOGIN is the role that runs them. */
const CHANGES: readonly [check: string, status: string, change: string, undo: string, message: string][] = [
  [
    'role',
    'warning',
    `GRANT DELETE ON orders TO petstore_service; GRANT UPDATE (plan) ON api_keys TO petstore_service;
     GRANT USAGE ON SEQUENCE orders_id_seq TO petstore_service;
     GRANT EXECUTE ON FUNCTION renew_order_list_versions() TO petstore_service`,
    `REVOKE DELETE ON orders FROM petstore_service; REVOKE UPDATE (plan) ON api_keys FROM petstore_service;
     REVOKE USAGE ON SEQUENCE orders_id_seq FROM petstore_service;
     REVOKE EXECUTE ON FUNCTION renew_order_list_versions() FROM petstore_service`,
    '"LOGIN" has more than it needs: DELETE ON orders, EXECUTE ON FUNCTION renew_order_list_versions(), ' +
      'UPDATE (plan) ON api_keys, USAGE ON SEQUENCE orders_id_seq',
  ],
  [
    'role',
    'error',
    'REVOKE USAGE ON SCHEMA public FROM petstore_service, PUBLIC',
    'GRANT USAGE ON SCHEMA public TO petstore_service, PUBLIC',
    '"LOGIN" lacks USAGE ON SCHEMA public',
  ],
  [
    'database',
    'error',
    'ALTER ROLE LOGIN SET default_transaction_read_only = on',
    'ALTER ROLE LOGIN RESET default_transaction_read_only',
    'can be written',
  ],
  [
    'list',
    'warning',
    // As `pg_restore --disable-triggers` leaves them.
    'ALTER TABLE orders ENABLE TRIGGER orders_note_insert',
    'ALTER TABLE orders ENABLE ALWAYS TRIGGER orders_note_insert',
    'the trigger orders_note_insert is missing, changed or not',
  ],
  [
    'list',
    'warning',
    'TRUNCATE order_list_changes',
    'SELECT renew_order_list_versions()',
    'order_list_changes has no row without a block: run SELECT renew_order_list_versions',
  ],
  [
    'schema',
    'error',
    "UPDATE _prisma_migrations SET finished_at = NULL WHERE migration_name LIKE '%api_key_usage'",
    "UPDATE _prisma_migrations SET finished_at = now() WHERE migration_name LIKE '%api_key_usage'",
    'the migration 20261122000002_api_key_usage was interrupted or has failed',
  ],
];

describe('runChecks', () => {
  it('changes nothing: every statement runs in a read-only transaction that is rolled back', async () => {
    const statements: string[] = [];
    const original = Object.getOwnPropertyDescriptor(pg.Client.prototype, 'query')?.value as () => unknown;
    const query = jest.spyOn(pg.Client.prototype, 'query').mockImplementation(function (
      this: pg.Client,
      ...args: unknown[]
    ) {
      statements.push(String(args[0]).trim());
      return Reflect.apply(original, this, args) as never;
    });
    await check();
    query.mockRestore();
    const outside = statements.filter((sql) => !/^(?:SELECT|WITH)\b/.test(sql));
    expect(statements.length).toBeGreaterThan(10);
    expect(new Set(outside.map((sql) => sql.split(';')[0]))).toEqual(new Set(['BEGIN READ ONLY', 'ROLLBACK']));
    expect(outside.length % 2).toBe(0);
  });

  it.each(CHANGES)('reports in %s as %s: %s', async (name, status, change, undo, message) => {
    const withLogin = (text: string): string => text.replaceAll('LOGIN', login.role);
    await database.db.query(withLogin(change));
    try {
      const found = (await problems())[name];
      expect(found).toMatchObject({ status, message: expect.stringContaining(withLogin(message)) as unknown });
    } finally {
      await database.db.query(withLogin(undo));
    }
  });

  it.each([
    // No member of petstore_service.
    [
      '',
      'error',
      '^"ROLE" lacks SELECT ON orders, .*UPDATE \\(last_used_at\\) ON api_keys, SELECT ON order_list_changes',
    ],
    [
      'CREATEROLE IN ROLE petstore_service, pg_monitor',
      'warning',
      '^"ROLE" has more than it needs: CREATEROLE, membership in pg_monitor, membership in pg_read_all_settings, ' +
        'membership in pg_read_all_stats, membership in pg_stat_scan_tables$',
    ],
  ])('reports what a role has or lacks that is created with "%s"', async (attributes, status, message) => {
    const other = await createServiceLogin(database, attributes);
    try {
      const { role } = await problems({ DATABASE_URL: other.url });
      expect(role).toMatchObject({ status, message: matching(message.replace('ROLE', other.role)) });
      const membership = `Run as a superuser or who created petstore_service: GRANT petstore_service TO "${other.role}". `;
      expect(String(role?.remedy).startsWith(membership)).toBe(status === 'error');
    } finally {
      await other.drop();
    }
  });

  it('says to apply the migrations when a table is missing whose migration is not recorded', async () => {
    const broken = await createTestDatabase();
    await broken.db.query(
      `DROP TABLE api_key_usage; DELETE FROM _prisma_migrations WHERE migration_name LIKE '%usage'`,
    );
    const { schema: found } = await problems({ DATABASE_URL: broken.url });
    await broken.drop();
    expect(found).toMatchObject({ message: 'no table api_key_usage', remedy: matching(/^Apply the migrations/) });
  });

  it('warns when the login is the owner', async () => {
    const { role } = await problems({ DATABASE_URL: database.url });
    expect(role).toMatchObject({ status: 'warning', message: '"petstore" owns the tables or is a superuser' });
  });

  it.each([
    [() => 'postgresql://app@127.0.0.1:1/x', /^DATABASE_URL is unreachable: connect ECONN/],
    [() => `${login.url}?sslmode=require`, /^DATABASE_URL .*(?:with which TLS|unreachable.*SSL)/],
  ])('reports an unusable server, and skips the checks that need it: %s', async (url, message) => {
    const { checks } = await check({ DATABASE_URL: url() });
    expect(checks.find(({ name }) => name === 'database')).toMatchObject({
      status: 'error',
      message: matching(message),
    });
    const names = ['connection limit', 'clock of PostgreSQL', 'schema', 'list', 'role', 'expiring keys'];
    expect(checks.filter((found) => found.message === UNREACHABLE).map(({ name }) => name)).toEqual(names);
  });

  it('reports that processes do not notice changed keys, and how to repair it', async () => {
    await database.db.query('ALTER TABLE api_keys DISABLE TRIGGER api_keys_notify_changed');
    const { schema: found } = await problems();
    await database.db.query(/ALTER TABLE.*changed/.exec(found?.remedy ?? '')?.[0] ?? '');
    expect(found).toMatchObject({ status: 'error' });
    expect(await problems()).toEqual({});
  });

  it('warns about keys that expire within 30 days, not about expired or revoked ones', async () => {
    const inDays = (days: number): Date => new Date(Date.now() + days * DAY_MS);
    const { id } = await insertKey(database.db, { expires_at: inDays(29) });
    await insertKey(database.db, { expires_at: inDays(31) });
    await insertKey(database.db, { expires_at: inDays(-1) });
    await insertKey(database.db, { expires_at: inDays(2), revoked_at: inDays(-1) });
    const found = (await problems())['expiring keys'];
    await database.db.query('DELETE FROM api_keys');
    expect(found).toMatchObject({
      message: `1 within 30 days: ${id} on ${inDays(29).toISOString().slice(0, 10)}`,
    });
  });

  it('compares the running processes with the connection limit', async () => {
    const service = await startTestService({ database: { ...database, url: login.url } });
    const second = await startTestService({ database: { ...database, url: login.url } });
    try {
      await database.db.query(`ALTER ROLE ${login.role} CONNECTION LIMIT 50`);
      expect(await problems()).toMatchObject({
        'connection limit': {
          status: 'warning',
          message: '50 connections for 2 running (19 each) leave too few for a rolling update',
          remedy: expect.stringContaining('so that 67 are available') as unknown,
        },
      });
    } finally {
      await database.db.query(`ALTER ROLE ${login.role} CONNECTION LIMIT -1`);
      await second.stop();
      await service.stop();
    }
  });

  it('recognises its service on the port, and another program', async () => {
    const service = await startTestService({ database });
    const other: Server = createServer((socket) => socket.end('220 mail.example.com ESMTP\r\n'));
    const otherPort = await freePort();
    await new Promise<void>((resolve) => other.listen(otherPort, '127.0.0.1', resolve));
    try {
      const diagnosis = await runChecks({ PORT: String(service.port), METRICS_PORT: String(otherPort) });
      expect(messagesOf(diagnosis)).toMatchObject({
        port: `ok: the service listens on 127.0.0.1:${service.port}`,
        'metrics port': `error: another program listens on 127.0.0.1:${otherPort}`,
      });
    } finally {
      other.close();
      await service.stop();
    }
  });

  it('ends when the database accepts the login and does not respond any more', async () => {
    // AuthenticationOk and ReadyForQuery.
    const ready = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0, 0x5a, 0, 0, 0, 5, 0x49]);
    const silent: Server = createServer((socket) => {
      socket.on('error', () => undefined).once('data', () => socket.write(ready));
    });
    const port = await freePort();
    await new Promise<void>((resolve) => silent.listen(port, '127.0.0.1', resolve));
    const diagnosis = await check({ DATABASE_URL: `postgresql://app@127.0.0.1:${port}/petstore` });
    silent.close();
    expect(messagesOf(diagnosis)).toMatchObject({
      database: matching(/^error: DATABASE_URL is unreachable/),
      'connection limit': `skipped: ${UNREACHABLE}`,
      role: `skipped: ${UNREACHABLE}`,
    });
  });
});

describeWithRedis('runChecks with Redis', () => {
  let redis: RedisServer;

  beforeAll(async () => {
    redis = await RedisServer.start(['--appendonly', 'yes']);
  });
  afterAll(() => redis.stop());

  it('names a wrong grant, a missing migration, an eviction policy and a wrong clock in one run', async () => {
    const broken = await createTestDatabase();
    const evicting = await RedisServer.start(['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru']);
    const brokenLogin = await createServiceLogin(broken);
    try {
      await broken.db.query(
        'REVOKE UPDATE (status) ON orders FROM petstore_service; GRANT DELETE ON orders TO petstore_service',
      );
      await broken.db.query('REVOKE EXECUTE ON FUNCTION compact_order_list_changes(bigint) FROM petstore_service');
      await broken.db.query('DROP TABLE api_key_usage');
      const diagnosis = await check({ DATABASE_URL: brokenLogin.url, REDIS_URL: evicting.url }, aDayAhead);
      expect(diagnosis.status).toBe('error');
      expect(problemsOf(diagnosis)).toMatchObject({
        role: {
          message: matching(
            /lacks UPDATE \(status\) ON orders, EXECUTE ON FUNCTION compact.* and has more than it needs: DELETE ON orders$/,
          ),
          remedy: matching(
            /^Run as the owner: GRANT UPDATE \(status\) ON orders TO petstore_service(?!.*GRANT petstore_service)/,
          ),
        },
        schema: {
          message: 'no table api_key_usage',
          remedy: matching(/^The migration 20261122000002_api_key_usage is recorded as applied, .* run its statements/),
        },
        Redis: { message: `127.0.0.1:${evicting.port} evicts counts (allkeys-lru)` },
        'clock of PostgreSQL': {
          message: matching(/^this host is 8640[01]\.\d s ahead of PostgreSQL$/),
        },
        'clock of Redis': { message: matching(/^this host is 8640[01]\.\d s ahead of Redis$/) },
      });
    } finally {
      await brokenLogin.drop();
      await broken.drop();
      await evicting.stop();
    }
  });

  it('accepts an append-only Redis that evicts nothing, and sends it reading commands only', async () => {
    const before = await redis.commandCounts();
    const diagnosis = await check({ REDIS_URL: redis.url });
    expect(problemsOf(diagnosis)).toEqual({});
    expect(messagesOf(diagnosis)).toMatchObject({
      Redis: matching(/^ok: \d.*append-only file and without eviction$/),
    });
    const after = await redis.commandCounts();
    const used = Object.keys(after).filter((command) => after[command] !== before[command]);
    expect(used.filter((command) => !READING_COMMANDS.includes(command))).toEqual([]);
  });

  it('works for the Redis user of docker-compose.yml, which may not run CONFIG', async () => {
    const rules = /^user petstore on #\$digest (.*)$/m.exec(
      readFileSync(join(__dirname, '..', '..', '..', 'deploy', 'make-secrets.sh'), 'utf8'),
    )?.[1];
    await administrate(redis, (admin) =>
      admin.call('ACL', 'SETUSER', 'petstore', 'on', '>secret', ...(rules ?? '').split(' ')),
    );
    const url = redis.url.replace('//', '//petstore:secret@');
    expect(await problems({ REDIS_URL: url })).toEqual({});
  });

  it('says why a check did not run, and prints no password', async () => {
    const secret = 'hunter2';
    const { exitCode, stdout } = await petstore(['doctor'], {
      ...ports,
      DATABASE_URL: `postgresql://app:${secret}@127.0.0.1:1/petstore`,
      REDIS_URL: redis.url.replace('//', `//petstore:${secret}@`),
    });
    expect(exitCode).toBe(2);
    expect(stdout).toMatch(
      /^error {4}database {13}DATABASE_URL is unreachable: connect ECONNREFUSED 127\.0\.0\.1:1\n {9}→ Correct DATABASE_URL/m,
    );
    expect(stdout).toMatch(/^skipped {2}schema {15}not checked: the database is unreachable or does not respond$/m);
    expect(stdout).toMatch(/^error {4}Redis {16}Redis is unreachable \(WRONGPASS/m);
    expect(stdout).not.toContain(secret);
  });

  it('ends when Redis does not respond', async () => {
    redis.freeze();
    const diagnosis = await check({ REDIS_URL: redis.url });
    redis.thaw();
    expect(messagesOf(diagnosis).Redis).toBe('error: Redis does not respond');
  });

  const READING_COMMANDS = ['info', 'time', 'client|setinfo', 'client|setname', 'select', 'ping', 'hello'];
});
