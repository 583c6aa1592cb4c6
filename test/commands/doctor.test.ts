import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { EXPECTED } from '../../src/cli/doctor/expected-schema.js';
import { definitionsIn } from '../../src/cli/doctor/schema.js';
import { sessionSettings } from '../../src/database/session-settings.js';
import { insertKey } from '../helpers/builders.js';
import { petstore } from '../helpers/petstore.js';
import { describeWithRedis, RedisServer } from '../helpers/redis-server.js';
import { createServiceLogin, type ServiceLogin } from '../helpers/service-login.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';

const DAY_MS = 86_400_000;

let database: TestDatabase;
let login: ServiceLogin;

beforeAll(async () => {
  database = await createTestDatabase();
  login = await createServiceLogin(database);
});
afterAll(async () => {
  await login.drop();
  await database.drop();
});

interface Found {
  readonly exitCode: number | null;
  /** By check, as `status: message → remedy`. */
  readonly checks: Readonly<Record<string, string>>;
}

/** Runs `doctor`, by default with the login of the service. */
async function doctor(variables: Readonly<Record<string, string>> = {}): Promise<Found> {
  const { exitCode, stdout } = await petstore(['doctor', '--json'], { DATABASE_URL: login.url, ...variables });
  const { checks } = JSON.parse(stdout) as { checks: Record<'name' | 'status' | 'message' | 'remedy', string>[] };
  const texts = checks.map(({ name, status, message, remedy }) => [name, `${status}: ${message} → ${remedy}`] as const);
  return { exitCode, checks: Object.fromEntries(texts) };
}

const matching = (text: string | RegExp): unknown => expect.stringMatching(text);

describe('petstore doctor', () => {
  it('exits with 0 for a deployment without problems, as JSON and as text', async () => {
    expect(await doctor()).toEqual({
      exitCode: 0,
      checks: {
        configuration: 'ok: valid, for development → null',
        database: matching(/^ok: "\w+" at 127\.0\.0\.1:\d+ /),
        access: 'ok: nobody else may create in the schema public → null',
        schema: 'ok: as the migrations made it → null',
        list: 'ok: served from versions → null',
        role: `ok: "${login.role}" has what the service needs, and nothing of an administrator → null`,
        'expiring keys': 'ok: none within 30 days → null',
        Redis: 'skipped: REDIS_URL is not set → null',
      },
    });
    const text = await petstore(['doctor'], { DATABASE_URL: login.url });
    expect(text).toMatchObject({ exitCode: 0, stdout: matching(/^ok {7}configuration {8}valid, for development\n/) });
  });

  it('reports invalid variables together, without a secret and on one line each', async () => {
    const invalid = { NODE_ENV: 'Production', PORT: '80\r', REDIS_URL: 'redis://:hunter2@redis\n' };
    const { exitCode, stdout } = await petstore(['doctor'], { DATABASE_URL: login.url, ...invalid });
    expect(exitCode).toBe(2);
    expect(stdout).toMatch(
      /^error {4}configuration {8}NODE_ENV must .*"\); REDIS_URL .* end\); PORT must .*\\u000d"\)\n/,
    );
    expect(stdout).not.toMatch(/hunter2|\r/);
  });

  it.each([
    ['has no TLS', () => `${login.url}?sslmode=require`, 'DATABASE_URL must point to a server with which TLS'],
    [
      'rejects the login',
      () => login.url.replace(':test@', ':hunter2@'),
      'DATABASE_URL must contain a login that the server accepts',
    ],
  ])('reports a server that %s, without the password', async (_what, url, message) => {
    const { exitCode, checks } = await doctor({ DATABASE_URL: url() });
    const expected = `^error: ${message}.* → Correct DATABASE_URL or the server`;
    expect([exitCode, checks.database]).toEqual([2, matching(expected)]);
    expect(JSON.stringify(checks)).not.toContain('hunter2');
  });

  it.each([
    [
      'schema',
      'ALTER TABLE orders DROP CONSTRAINT orders_quantity_positive; DROP INDEX api_keys_key_hash_key',
      2,
      'error: missing: .*constraint orders_quantity_positive of orders.*index api_keys_key_hash_key.* → Apply',
    ],
    [
      'schema',
      `ALTER TABLE api_keys DISABLE TRIGGER api_keys_notify_changed;
       CREATE OR REPLACE FUNCTION renew_order_list_versions() RETURNS void LANGUAGE sql AS $$ $$`,
      1,
      'warning: not as the migrations of this version make it: ' +
        'function renew_order_list_versions.*trigger api_keys_notify_changed of api_keys → Unless',
    ],
    [
      'schema',
      "UPDATE _prisma_migrations SET finished_at = NULL WHERE migration_name LIKE '%api_key_usage'",
      2,
      'error: the migration 20261122000002_api_key_usage is running, was interrupted or has failed → If none is running, run ' +
        '"npx prisma migrate resolve --rolled-back 20261122000002_api_key_usage"',
    ],
    // As `pg_restore --disable-triggers` leaves them.
    [
      'list',
      'ALTER TABLE orders ENABLE TRIGGER orders_note_insert',
      1,
      'warning: the trigger orders_note_insert is missing or not',
    ],
    [
      'list',
      'TRUNCATE order_list_changes',
      1,
      'warning: order_list_changes has no row without a block: run SELECT renew',
    ],
    [
      'access',
      'GRANT CREATE ON SCHEMA public TO PUBLIC',
      1,
      'warning: migrations end with an error: .* may create in the schema',
    ],
    [
      'role',
      'REVOKE UPDATE (status) ON orders FROM petstore_service; REVOKE EXECUTE ON FUNCTION merge_order_list_changes FROM petstore_service',
      2,
      String.raw`error: "\w+" lacks UPDATE \(status\) ON orders, EXECUTE ON FUNCTION merge_order_list_changes\(bigint, bigint\) → Make it`,
    ],
    [
      'role',
      'GRANT DELETE ON orders TO petstore_service; GRANT INSERT ON api_keys TO petstore_service',
      1,
      'warning: "\\w+" has more than the service needs: DELETE ON orders, INSERT ON api_keys → Give the service a login',
    ],
  ])('reports in %s: %s', async (check, change, exitCode, expected) => {
    const broken = await createTestDatabase();
    const service = await createServiceLogin(broken);
    await broken.db.query(change);
    const found = await doctor({ DATABASE_URL: service.url });
    await service.drop();
    await broken.drop();
    expect([found.checks[check], found.exitCode]).toEqual([matching(`^${expected}`), exitCode]);
  });

  it('expects of the schema all that the migrations make', async () => {
    const client = await database.db.connect();
    await client.query(sessionSettings());
    const found = await definitionsIn(client).finally(() => {
      client.release(true);
    });
    found.delete('constraint _prisma_migrations_pkey of _prisma_migrations');
    const made = Object.fromEntries([...found].sort());
    if (process.env.EXPECTED_SCHEMA === 'write') {
      const path = join(__dirname, '../../src/cli/doctor/expected-schema.ts');
      const lines = Object.entries(made).map(([object, digest]) => `  '${object}': '${digest}',\n`);
      writeFileSync(path, readFileSync(path, 'utf8').replace(/(?<== \{\n)[^}]*/, lines.join('')));
    }
    expect(made).toEqual(EXPECTED);
  });

  it('warns about keys that expire within 30 days, not about expired or revoked ones', async () => {
    const inDays = (days: number): Date => new Date(Date.now() + days * DAY_MS);
    const { id } = await insertKey(database.db, { expires_at: inDays(29) });
    await insertKey(database.db, { expires_at: inDays(31) });
    await insertKey(database.db, { expires_at: inDays(-1) });
    await insertKey(database.db, { expires_at: inDays(2), revoked_at: inDays(-1) });
    const { exitCode, checks } = await doctor();
    await database.db.query('DELETE FROM api_keys');
    const day = inDays(29).toISOString().slice(0, 10);
    expect([exitCode, checks['expiring keys']]).toEqual([
      1,
      matching(`^warning: within 30 days: ${id} on ${day} → Issue`),
    ]);
  });
});

describeWithRedis('petstore doctor with Redis', () => {
  let redis: RedisServer;

  beforeAll(async () => {
    redis = await RedisServer.start(['--appendonly', 'yes']);
  });
  afterAll(() => redis.stop());

  /** What is found with a user of these rights, whose password does not show. */
  async function checkedAs(rules: string): Promise<string | undefined> {
    await redis.administrate((admin) =>
      admin.call('ACL', 'SETUSER', 'limited', 'reset', 'on', '>hunter2', ...rules.split(' ')),
    );
    const { checks } = await doctor({ REDIS_URL: redis.url.replace('//', '//limited:hunter2@') });
    expect(JSON.stringify(checks)).not.toContain('hunter2');
    return checks.Redis;
  }

  it('accepts the Redis of docker-compose.yml and its user', async () => {
    const script = readFileSync(join(__dirname, '..', '..', 'deploy', 'make-secrets.sh'), 'utf8');
    const [, rules = ''] = /^user petstore on #\$digest (.*)$/m.exec(script) ?? [];
    expect(await checkedAs(rules)).toMatch(/^ok: Redis \d.* at 127\.0\.0\.1:\d+ counts requests → null$/);
  });

  it('reports a user that may not do what the service does', async () => {
    expect(await checkedAs('~petstore:* +@all -evalsha')).toMatch(
      /^error: Redis cannot be used \(NOPERM .*evalsha.* → Check REDIS_URL, Redis, and that its user has the rights/,
    );
  });

  it('reports Redis that evicts counts, and then one without an append-only file', async () => {
    const foundWith = async (...settings: string[]): Promise<string | undefined> => {
      await redis.administrate((admin) => admin.call('CONFIG', 'SET', ...settings));
      return (await doctor({ REDIS_URL: redis.url })).checks.Redis;
    };
    expect(await foundWith('maxmemory', '100mb', 'maxmemory-policy', 'volatile-ttl')).toMatch(
      /^error: Redis evicts counts \(volatile-ttl\)/,
    );
    // Not switched on again: the process that then writes the file would outlive the server.
    expect(await foundWith('maxmemory', '0', 'appendonly', 'no')).toMatch(/^warning: Redis has no append-only file/);
  });
});
