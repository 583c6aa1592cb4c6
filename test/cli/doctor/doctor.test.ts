import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import { type CheckResult, diagnose, type Diagnosis } from '../../../src/cli/doctor/diagnose.js';
import { applyMigrations } from '../../helpers/isolated-database.js';
import { insertKey } from '../../helpers/builders.js';
import { freePort } from '../../helpers/free-port.js';
import { petstore } from '../../helpers/petstore.js';
import { describeWithRedis, RedisServer } from '../../helpers/redis-server.js';
import { createServiceLogin, type ServiceLogin } from '../../helpers/service-login.js';
import { createTestDatabase, type TestDatabase } from '../../helpers/test-database.js';
import { startTestService } from '../../helpers/test-service.js';

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

/** The findings that are neither `ok` nor skipped, by name. */
function problemsOf({ checks }: Diagnosis): Record<string, CheckResult> {
  return Object.fromEntries(
    checks.filter(({ status }) => status === 'warning' || status === 'error').map((check) => [check.name, check]),
  );
}

function messagesOf({ checks }: Diagnosis): Record<string, string> {
  return Object.fromEntries(checks.map(({ name, status, message }) => [name, `${status}: ${message}`]));
}

describe('petstore doctor', () => {
  it('exits with 0 for a deployment without problems, as JSON and as text', async () => {
    const json = await petstore(['doctor', '--json'], { DATABASE_URL: login.url, ...ports });
    const diagnosis = JSON.parse(json.stdout) as Diagnosis;
    expect(problemsOf(diagnosis)).toEqual({});
    expect({ ...json, stdout: '' }).toEqual({ exitCode: 0, stdout: '', stderr: '' });
    expect(messagesOf(diagnosis)).toMatchObject({
      configuration: 'ok: valid, for development',
      migrations: expect.stringMatching(/^ok: all \d+ applied/) as unknown,
      role: `ok: "${login.role}" has what the service needs and nothing else`,
      pooler: 'ok: none',
      'clock of PostgreSQL': 'ok: the same as of this host, within a second',
      port: `ok: nothing listens on 127.0.0.1:${ports.PORT}`,
      'expiring keys': 'ok: none within 30 days',
    });
    const text = await petstore(['doctor'], { DATABASE_URL: login.url, ...ports });
    expect(text.exitCode).toBe(0);
    expect(text.stdout).toMatch(/^ok {7}configuration {8}valid, for development\n/);
  });

  it('reports invalid variables together, and still runs the checks that do not need them', async () => {
    const secret = 'hunter2';
    const { exitCode, stdout } = await petstore(['doctor', '--json'], {
      ...ports,
      NODE_ENV: 'production',
      DATABASE_URL: login.url,
      PORT: 'abc',
      LOG_LEVEL: 'loud',
      REDIS_URL: `http://user:${secret}@redis`,
    });
    expect(exitCode).toBe(2);
    const diagnosis = JSON.parse(stdout) as Diagnosis;
    expect(problemsOf(diagnosis).configuration?.details).toEqual([
      expect.stringMatching(/^REDIS_URL must be /),
      'PORT must be an integer from 0 to 65535 (got "abc")',
      expect.stringMatching(/^LOG_LEVEL must be one of .* \(got "loud"\)$/),
    ]);
    expect(messagesOf(diagnosis)).toMatchObject({
      database: expect.stringMatching(/^ok: /) as unknown,
      Redis: 'skipped: not checked: REDIS_URL is invalid',
      port: 'skipped: not checked: PORT is invalid',
      'metrics port': `ok: nothing listens on 127.0.0.1:${ports.METRICS_PORT}`,
    });
    expect(stdout).not.toContain(secret);
  });
});

describe('diagnose', () => {
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
    await diagnose({ DATABASE_URL: login.url, ...ports });
    query.mockRestore();
    const outside = statements.filter((sql) => !/^SELECT\b/.test(sql));
    expect(statements.length).toBeGreaterThan(10);
    expect(new Set(outside.map((sql) => sql.split(';')[0]))).toEqual(new Set(['BEGIN READ ONLY', 'ROLLBACK']));
    expect(outside.length % 2).toBe(0);
  });
  it('names each migration that is missing, with a role that may not read the record of migrations', async () => {
    const empty = await createEmptyDatabase();
    try {
      const applied: string[] = [];
      const missing = async (): Promise<string | undefined> =>
        messagesOf(await diagnose({ DATABASE_URL: empty.url, ...ports })).migrations;
      expect(await missing()).toContain('20261122000000_orders_and_keys');
      await applyMigrations(empty.db, async (name) => {
        applied.push(name);
        expect((await missing())?.includes(name)).toBe(false);
      });
      expect(await missing()).toBe(`ok: all ${applied.length} applied, as far as this role can see`);
    } finally {
      await empty.drop();
    }
  });

  it('reports a role that is no member of petstore_service, and what it lacks', async () => {
    const stranger = await createServiceLogin(database, '');
    try {
      const { role } = problemsOf(await diagnose({ DATABASE_URL: stranger.url, ...ports }));
      expect(role).toMatchObject({
        status: 'error',
        message: expect.stringContaining(`"${stranger.role}" lacks `) as unknown,
        details: expect.arrayContaining([
          'SELECT ON orders',
          'UPDATE (status, cancelled_at) ON orders',
          'UPDATE (last_used_at) ON api_keys',
          'SELECT ON order_list_changes',
        ]) as unknown,
        remedy: `Run as the owner: GRANT petstore_service TO "${stranger.role}".`,
      });
    } finally {
      await stranger.drop();
    }
  });

  it('warns about privileges, attributes and memberships that the service does not need', async () => {
    const strong = await createServiceLogin(database, 'CREATEROLE IN ROLE petstore_service, pg_monitor');
    await database.db.query(`GRANT SELECT (name), DELETE ON api_keys TO ${strong.role}`);
    try {
      const { role } = problemsOf(await diagnose({ DATABASE_URL: strong.url, ...ports }));
      expect(role).toMatchObject({
        status: 'warning',
        details: expect.arrayContaining([
          'CREATEROLE',
          'membership in pg_monitor',
          'DELETE ON api_keys',
          'SELECT (name) ON api_keys',
        ]) as unknown,
      });
    } finally {
      await strong.drop();
    }
  });

  it('warns when the login is the owner, and examines the role of the service then', async () => {
    const { role } = problemsOf(await diagnose({ DATABASE_URL: database.url, ...ports }));
    expect(role).toMatchObject({ status: 'warning', message: '"petstore" owns the tables or is a superuser' });
  });

  it('names missing and superfluous grants on tables, columns, sequences and functions', async () => {
    const granted = `
      GRANT DELETE ON orders TO petstore_service; GRANT UPDATE (plan) ON api_keys TO petstore_service;
      GRANT USAGE ON SEQUENCE order_list_changes_id_seq TO petstore_service;
      GRANT EXECUTE ON FUNCTION note_order_list_block(bigint) TO petstore_service;`;
    await database.db.query(granted);
    const { role: superfluous } = problemsOf(await diagnose({ DATABASE_URL: login.url, ...ports }));
    await database.db.query(granted.replaceAll('GRANT', 'REVOKE').replaceAll(' TO ', ' FROM '));
    expect(superfluous).toMatchObject({ status: 'warning' });
    expect(superfluous?.details.toSorted()).toEqual([
      'DELETE ON orders',
      'EXECUTE ON FUNCTION note_order_list_block(bigint)',
      'UPDATE (plan) ON api_keys',
      'USAGE ON SEQUENCE order_list_changes_id_seq',
    ]);
    const revoked = `
      REVOKE DELETE ON api_key_usage FROM petstore_service; REVOKE UPDATE (banned) ON api_key_usage FROM petstore_service;
      REVOKE EXECUTE ON FUNCTION compact_order_list_changes(bigint) FROM petstore_service;`;
    await database.db.query(`${revoked} GRANT DELETE ON orders TO petstore_service`);
    const { role: missing } = problemsOf(await diagnose({ DATABASE_URL: login.url, ...ports }));
    await database.db.query(`
      ${revoked.replaceAll('REVOKE', 'GRANT').replaceAll(' FROM ', ' TO ')} REVOKE DELETE ON orders FROM petstore_service`);
    expect(missing).toMatchObject({
      status: 'error',
      message: expect.stringContaining(', and has more than it needs: DELETE ON orders') as unknown,
      remedy: expect.stringContaining(
        'GRANT EXECUTE ON FUNCTION compact_order_list_changes(bigint) TO petstore_service',
      ) as unknown,
    });
    expect(missing?.details.toSorted()).toEqual([
      'DELETE ON api_key_usage',
      'DELETE ON orders',
      'EXECUTE ON FUNCTION compact_order_list_changes(bigint)',
      'UPDATE (banned) ON api_key_usage',
    ]);
  });

  it('skips the checks that need the database when it is unreachable, and says why', async () => {
    const { checks } = await diagnose({ DATABASE_URL: 'postgresql://app@127.0.0.1:1/petstore', ...ports });
    const skipped = checks.filter(({ message }) => message === 'not checked: database unreachable');
    expect(skipped.map(({ name }) => name)).toEqual([
      'PostgreSQL version',
      'connection limit',
      'pooler',
      'clock of PostgreSQL',
      'migrations',
      'triggers',
      'role',
      'expiring keys',
    ]);
  });

  it.each([
    ['DISABLE', 'orders_note_insert', 'ENABLE ALWAYS'],
    // As `pg_restore --disable-triggers` leaves them.
    ['ENABLE', 'orders_note_update', 'ENABLE ALWAYS'],
    ['ENABLE', 'orders_note_replicated_delete', 'ENABLE REPLICA'],
  ])('reports a trigger after %s TRIGGER %s', async (wrong, trigger, right) => {
    const remedy = `ALTER TABLE orders ${right} TRIGGER ${trigger};`;
    await database.db.query(`ALTER TABLE orders ${wrong} TRIGGER ${trigger}`);
    const { triggers } = problemsOf(await diagnose({ DATABASE_URL: login.url, ...ports }));
    await database.db.query(remedy);
    expect(triggers).toMatchObject({
      status: 'error',
      message: `disabled, missing or in the wrong mode: ${trigger}`,
      remedy: expect.stringContaining(`Run as the owner: ${remedy} Then`) as unknown,
    });
  });

  it('reports row-level security of the list', async () => {
    await database.db.query('ALTER TABLE orders ENABLE ROW LEVEL SECURITY');
    const { triggers: policies } = problemsOf(await diagnose({ DATABASE_URL: login.url, ...ports }));
    await database.db.query('ALTER TABLE orders DISABLE ROW LEVEL SECURITY');
    expect(policies?.message).toBe('row-level security is enabled for orders');
  });

  it('warns about keys that expire within 30 days, not about expired or revoked ones', async () => {
    const inDays = (days: number): Date => new Date(Date.now() + days * DAY_MS);
    const { id } = await insertKey(database.db, { expires_at: inDays(29) });
    await insertKey(database.db, { expires_at: inDays(31) });
    await insertKey(database.db, { expires_at: inDays(-1) });
    await insertKey(database.db, { expires_at: inDays(2), revoked_at: inDays(-1) });
    const problems = problemsOf(await diagnose({ DATABASE_URL: login.url, ...ports }));
    await database.db.query('DELETE FROM api_keys');
    expect(problems['expiring keys']).toMatchObject({
      message: '1 key expires within 30 days',
      details: [`${id} on ${inDays(29).toISOString().slice(0, 10)}`],
    });
  });

  it('compares the connection limit with the running processes', async () => {
    const service = await startTestService({ database: { ...database, url: login.url } });
    try {
      await database.db.query(`ALTER ROLE ${login.role} CONNECTION LIMIT 25`);
      const { 'connection limit': limit } = problemsOf(await diagnose({ DATABASE_URL: login.url, ...ports }));
      expect(limit).toMatchObject({
        status: 'warning',
        message: '25 connections for 1 running (19 each) leave too few for a rolling update',
        remedy: expect.stringContaining('so that 48 are available') as unknown,
      });
    } finally {
      await database.db.query(`ALTER ROLE ${login.role} CONNECTION LIMIT -1`);
      await service.stop();
    }
  });

  it('recognises its service on the port, and another program', async () => {
    const service = await startTestService({ database });
    const other: Server = createServer((socket) => socket.end('220 mail.example.com ESMTP\r\n'));
    const otherPort = await freePort();
    await new Promise<void>((resolve) => other.listen(otherPort, '127.0.0.1', resolve));
    try {
      const diagnosis = await diagnose({ PORT: String(service.port), METRICS_PORT: String(otherPort) });
      expect(messagesOf(diagnosis)).toMatchObject({
        port: `ok: the service listens on 127.0.0.1:${service.port}`,
        'metrics port': `error: another program listens on 127.0.0.1:${otherPort}`,
      });
    } finally {
      other.close();
      await service.stop();
    }
  });

  async function createEmptyDatabase(): Promise<TestDatabase> {
    const created = await createTestDatabase();
    await created.db.query('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
    return created;
  }
});

describeWithRedis('diagnose with Redis', () => {
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
      await broken.db.query('REVOKE UPDATE (status) ON orders FROM petstore_service');
      await broken.db.query('DROP FUNCTION compact_order_list_changes(bigint)');
      const diagnosis = await diagnose({ DATABASE_URL: brokenLogin.url, REDIS_URL: evicting.url, ...ports }, aDayAhead);
      expect(diagnosis.status).toBe('error');
      expect(problemsOf(diagnosis)).toMatchObject({
        role: {
          message: `"${brokenLogin.role}" lacks UPDATE (status) ON orders`,
          remedy: 'Run as the owner: GRANT UPDATE (status) ON orders TO petstore_service.',
        },
        migrations: { message: 'missing: 20261122000001_order_list_versions' },
        'Redis eviction': { message: `allkeys-lru on 127.0.0.1:${evicting.port}: counts are evicted` },
        'clock of PostgreSQL': { message: 'this host is 1 d ahead of PostgreSQL' },
        'clock of Redis': { message: 'this host is 1 d ahead of Redis' },
      });
    } finally {
      await brokenLogin.drop();
      await broken.drop();
      await evicting.stop();
    }
  });

  it('accepts an append-only Redis that evicts nothing, and sends it reading commands only', async () => {
    const before = await redis.commandCounts();
    const diagnosis = await diagnose({ DATABASE_URL: login.url, REDIS_URL: redis.url, ...ports });
    expect(problemsOf(diagnosis)).toEqual({});
    expect(messagesOf(diagnosis)).toMatchObject({
      Redis: expect.stringMatching(/^ok: \d/) as unknown,
      'Redis eviction': 'ok: noeviction',
      'Redis persistence': 'ok: append-only file',
    });
    const after = await redis.commandCounts();
    const used = Object.keys(after).filter((command) => after[command] !== before[command]);
    expect(used.filter((command) => !READING_COMMANDS.includes(command))).toEqual([]);
  });

  it('works for the Redis user of docker-compose.yml, which may not run CONFIG', async () => {
    const admin = redis.connect();
    const rules = /^user petstore on #\$digest (.*)$/m.exec(
      readFileSync(join(__dirname, '..', '..', '..', 'deploy', 'make-secrets.sh'), 'utf8'),
    )?.[1];
    await admin.call('ACL', 'SETUSER', 'petstore', 'on', '>secret', ...(rules ?? '').split(' '));
    admin.disconnect();
    const url = redis.url.replace('//', '//petstore:secret@');
    const diagnosis = await diagnose({ DATABASE_URL: login.url, REDIS_URL: url, ...ports });
    expect(problemsOf(diagnosis)).toEqual({});
  });

  it('says why a check did not run, and prints no password', async () => {
    const secret = 'hunter2';
    const { exitCode, stdout } = await petstore(['doctor'], {
      ...ports,
      DATABASE_URL: `postgresql://app:${secret}@127.0.0.1:1/petstore`,
      REDIS_URL: redis.url.replace('//', `//petstore:${secret}@`),
    });
    expect(exitCode).toBe(2);
    expect(stdout).toMatch(/^error {4}database {13}"petstore" at 127\.0\.0\.1:1 as "app":/m);
    expect(stdout).toMatch(/^- {8}migrations {11}not checked: database unreachable$/m);
    expect(stdout).toMatch(/^error {4}Redis {16}Redis is unreachable \(WRONGPASS/m);
    expect(stdout).toMatch(/^- {8}Redis eviction {7}not checked: Redis unavailable$/m);
    expect(stdout).not.toContain(secret);
    expect(stdout.split('\n').filter((line) => line.length > 80)).toEqual([]);
  });

  it('ends when Redis does not respond', async () => {
    redis.freeze();
    const diagnosis = await diagnose({ DATABASE_URL: login.url, REDIS_URL: redis.url, ...ports });
    redis.thaw();
    expect(messagesOf(diagnosis).Redis).toBe('error: Redis does not respond');
  });

  const READING_COMMANDS = [
    'info',
    'time',
    'config|get',
    'client|setinfo',
    'client|setname',
    'select',
    'ping',
    'hello',
  ];
});
