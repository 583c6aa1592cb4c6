import { readdirSync, readFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import type { Result, Results } from '../../../src/cli/doctor/check.js';
import { EXPECTED_SCHEMA, SELECT_SCHEMA } from '../../../src/cli/doctor/expected-schema.js';
import { runChecks } from '../../../src/cli/doctor/run-checks.js';
import { PROJECT_ROOT } from '../../../src/common/project-root.js';
import { sessionSettings } from '../../../src/database/session-settings.js';
import { insertKey } from '../../helpers/builders.js';
import { freePort } from '../../helpers/free-port.js';
import { lockTable } from '../../helpers/lock-waits.js';
import { petstore } from '../../helpers/petstore.js';
import { prismaMigrate } from '../../helpers/prisma-migrate.js';
import { administrate } from '../../helpers/redis-limits.js';
import { describeWithRedis, RedisServer } from '../../helpers/redis-server.js';
import { createServiceLogin, type ServiceLogin } from '../../helpers/service-login.js';
import { TcpProxy } from '../../helpers/tcp-proxy.js';
import { createTestDatabase, type TestDatabase } from '../../helpers/test-database.js';
import { startTestService, type TestService } from '../../helpers/test-service.js';
import { waitFor } from '../../helpers/wait-for.js';

const SKIPPED = 'skipped: not checked: an earlier check has found a problem';
const NO_USAGE = 'skipped: not checked: the login may not use the schema public';
const DAY_MS = 86_400_000;

let database: TestDatabase;
let login: ServiceLogin;
let ports: Readonly<Record<string, string>>;

beforeAll(async () => {
  database = await createTestDatabase();
  login = await createServiceLogin(database);
  await database.db.query(
    withNames('REVOKE ALL ON DATABASE DATABASE FROM PUBLIC; GRANT CONNECT ON DATABASE DATABASE TO LOGIN'),
  );
  ports = { PORT: String(await freePort()), METRICS_PORT: String(await freePort()) };
});
afterAll(async () => {
  await login.drop();
  await database.drop();
});

type Found = Readonly<Record<string, string>>;

const TERMINATE_WAITING = `
  SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND application_name = 'petstore-doctor' AND wait_event_type = 'Lock'`;

/** With the names of the database and of the login in the place of DATABASE and LOGIN. */
function withNames(text: string): string {
  const name = new URL(database.url).pathname.slice(1);
  return text.replaceAll(/(?<=DATABASE )DATABASE/g, name).replaceAll('LOGIN', login.role);
}

const matching = (text: string | RegExp): unknown => expect.stringMatching(text);

/** What was found by each check, as `status: message → remedy`. */
function foundIn(results: Results): Found {
  const textOf = (remedy: string | null): string => (remedy === null ? '' : ` → ${remedy}`);
  return Object.fromEntries(
    Object.entries(results).map(([name, { status, message, remedy }]) => [
      name,
      `${status}: ${message}${textOf(remedy)}`,
    ]),
  );
}

/** The status of all checks and what was found by each, in the output with --json. */
function printedIn(stdout: string): [status: string, found: Found] {
  const { status, checks } = JSON.parse(stdout) as { status: string; checks: (Result & { name: string })[] };
  return [status, foundIn(Object.fromEntries(checks.map(({ name, ...result }) => [name, result])))];
}

/** Runs the checks with the login of the service. */
async function check(variables: Readonly<Record<string, string>> = {}): Promise<Found> {
  return foundIn(await runChecks({ DATABASE_URL: login.url, ...ports, ...variables }));
}

const problemsIn = (found: Found): string[] => Object.values(found).filter((text) => /^(?:warning|error)/.test(text));

/** @returns the port */
async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

describe('petstore doctor', () => {
  it('exits with 0 for a deployment without problems, as JSON and as text', async () => {
    const json = await petstore(['doctor', '--json'], { DATABASE_URL: login.url, ...ports });
    expect(json).toMatchObject({ exitCode: 0, stderr: '' });
    const [status, found] = printedIn(json.stdout);
    expect(status).toBe('ok');
    expect(problemsIn(found)).toEqual([]);
    expect(found).toMatchObject({
      configuration: 'ok: valid, for development',
      schema: 'ok: as the migrations made it',
      role: `ok: "${login.role}" has what the service needs and nothing else`,
      list: 'ok: served from versions',
      'clock of PostgreSQL': 'ok: within a second of the clock of this host',
      port: `ok: nothing listens on 127.0.0.1:${ports.PORT}`,
      'expiring keys': 'ok: none within 30 days',
    });
    const text = await petstore(['doctor'], { DATABASE_URL: login.url, ...ports });
    expect(text.exitCode).toBe(0);
    expect(text.stdout).toMatch(/^ok {7}configuration {8}valid, for development\n/);
  });

  it('reports invalid variables together, without a secret', async () => {
    const invalid = { PORT: 'abc', LOG_LEVEL: 'loud', REDIS_URL: 'http://user:hunter2@redis' };
    const { exitCode, stdout } = await petstore(['doctor', '--json'], { DATABASE_URL: login.url, ...invalid });
    expect(exitCode).toBe(2);
    expect(stdout).not.toContain('hunter2');
    const problems = /REDIS_URL must be .*; PORT must be .* \(got "abc"\); LOG_LEVEL must be .* \(got "loud"\)/;
    expect(printedIn(stdout)).toEqual(['error', { configuration: matching(problems) }]);
  });
});

/** Effects that last for one run of the checks, {@link withNames}. */
const CHANGES: readonly [check: string, change: string, undo: string, found: string][] = [
  [
    'role',
    `REVOKE UPDATE (status) ON orders FROM petstore_service;
     REVOKE EXECUTE ON FUNCTION merge_order_list_changes(bigint,bigint) FROM petstore_service;
     GRANT DELETE ON orders TO petstore_service; GRANT UPDATE (plan) ON api_keys TO petstore_service;
     GRANT USAGE ON SEQUENCE orders_id_seq TO petstore_service;
     GRANT EXECUTE ON FUNCTION renew_order_list_versions() TO petstore_service`,
    `GRANT UPDATE (status) ON orders TO petstore_service;
     GRANT EXECUTE ON FUNCTION merge_order_list_changes(bigint,bigint) TO petstore_service;
     REVOKE DELETE ON orders FROM petstore_service; REVOKE UPDATE (plan) ON api_keys FROM petstore_service;
     REVOKE USAGE ON SEQUENCE orders_id_seq FROM petstore_service;
     REVOKE EXECUTE ON FUNCTION renew_order_list_versions() FROM petstore_service`,
    'error: "LOGIN" lacks UPDATE (status) ON orders, EXECUTE ON FUNCTION merge_order_list_changes(bigint,bigint), and has more ' +
      'than it needs: DELETE ON orders, EXECUTE ON FUNCTION renew_order_list_versions(), UPDATE (plan) ON api_keys, ' +
      'USAGE ON SEQUENCE orders_id_seq → Run as the owner: GRANT UPDATE (status) ON orders TO petstore_service; GRANT EXEC',
  ],
  [
    'database',
    'ALTER ROLE LOGIN SET default_transaction_read_only = on',
    'ALTER ROLE LOGIN RESET default_transaction_read_only',
    'error: DATABASE_URL must point to a writable primary server',
  ],
  [
    'list',
    // As `pg_restore --disable-triggers` leaves them.
    'ALTER TABLE orders ENABLE TRIGGER orders_note_insert',
    'ALTER TABLE orders ENABLE ALWAYS TRIGGER orders_note_insert',
    'warning: the trigger orders_note_insert is missing or not ENABLE ALWAYS → Restore what the newest migration',
  ],
  [
    'list',
    'TRUNCATE order_list_changes',
    'SELECT renew_order_list_versions()',
    'warning: order_list_changes has no row without a block: run SELECT renew_order_list_versions',
  ],
  [
    'schema',
    `UPDATE _prisma_migrations SET finished_at = NULL WHERE migration_name LIKE '%api_key_usage';
     ALTER TABLE api_key_usage RENAME TO none`,
    `UPDATE _prisma_migrations SET finished_at = now() WHERE migration_name LIKE '%api_key_usage';
     ALTER TABLE none RENAME TO api_key_usage`,
    'error: the migration 20261122000002_api_key_usage was interrupted or has failed → If none is running, run "npx prisma migrate ' +
      'resolve --rolled-back 20261122000002_api_key_usage" as the owner, or with --applied if what its script makes is there, and apply',
  ],
];

describe('runChecks', () => {
  it('changes nothing: every statement runs in a read-only transaction', async () => {
    const statements: string[] = [];
    const original = Object.getOwnPropertyDescriptor(pg.Client.prototype, 'query')?.value as () => unknown;
    jest.spyOn(pg.Client.prototype, 'query').mockImplementation(function (this: pg.Client, ...args: unknown[]) {
      statements.push(String(args[0]).trim());
      return Reflect.apply(original, this, args) as never;
    });
    await check();
    const outside = statements.filter((sql) => !/^(?:SELECT|WITH)\b/.test(sql));
    expect(statements.length).toBeGreaterThan(10);
    expect(outside).toEqual([
      matching(/^SET .*SET default_transaction_read_only = 'on'/),
      'BEGIN; SET LOCAL search_path = pg_catalog',
      'ROLLBACK',
    ]);
  });

  it.each(CHANGES)('reports in %s: %s', async (name, change, undo, expected) => {
    await database.db.query(withNames(change));
    const found = await check().finally(() => database.db.query(withNames(undo)));
    expect(found[name]?.slice(0, withNames(expected).length)).toBe(withNames(expected));
  });

  it.each(['NOINHERIT', 'NOINHERIT IN ROLE petstore_service'])(
    'says how a login gets the privileges of its role that is created with "%s"',
    async (attributes) => {
      const other = await createServiceLogin(database, attributes);
      await database.db.query(withNames(`GRANT CONNECT ON DATABASE DATABASE TO ${other.role}`));
      const { role = '' } = await check({ DATABASE_URL: other.url });
      await database.db.query(/GRANT petstore_service [^.]*/.exec(role)?.[0] ?? '');
      const found = await check({ DATABASE_URL: other.url }).finally(() => other.drop());
      expect(role).toMatch(/^error: "\w+" lacks SELECT ON orders/);
      expect(problemsIn(found)).toEqual([]);
    },
  );

  const MEMBERSHIP =
    /^error: "(\w+)" lacks SELECT ON orders, .* → Run as a superuser .*: GRANT petstore_service TO \1\./;
  it.each([
    ['', MEMBERSHIP],
    [
      'CREATEROLE IN ROLE petstore_service, pg_monitor',
      /^warning: .* has more than it needs: CREATEROLE, membership in pg_monitor, (?:membership in pg_[a-z_]+(?:, )?){3} → Take attributes and memberships/,
    ],
  ])('reports what a role has or lacks that is created with "%s"', async (attributes, expected) => {
    const other = await createServiceLogin(database, attributes);
    await database.db.query(withNames(`GRANT CONNECT ON DATABASE DATABASE TO ${other.role}`));
    const { role } = await check({ DATABASE_URL: other.url }).finally(() => other.drop());
    expect(role).toMatch(expected);
  });

  it.each([
    // As a restore into a new database leaves it.
    [
      'access',
      'GRANT CONNECT, TEMPORARY ON DATABASE DATABASE TO PUBLIC; REVOKE CONNECT ON DATABASE DATABASE FROM LOGIN',
      /^warning: every login of the server has CONNECT, TEMPORARY on this database → Run as the owner of the database: (.*)$/,
    ],
    // As in PostgreSQL 14: the login of the service could create what the owner runs.
    [
      'access',
      'GRANT CREATE ON SCHEMA public TO PUBLIC',
      /^warning: every login of the server has CREATE in its schema public → Run as a superuser: (.*)$/,
    ],
    [
      'role',
      `GRANT DELETE ON orders TO petstore_service; GRANT CREATE ON SCHEMA public TO LOGIN; GRANT SELECT (name) ON api_keys TO PUBLIC`,
      /^warning: "\w+" has more than it needs: CREATE ON SCHEMA public, DELETE ON orders, SELECT \(name\) ON api_keys → Run as the owner: (.*)$/,
    ],
  ])('reports in %s a right too many, and how to take it: %s', async (name, change, expected) => {
    await database.db.query(withNames(change));
    const found = await check();
    expect(found[name]).toMatch(expected);
    await database.db.query(expected.exec(found[name] ?? '')?.[1] ?? '');
    expect(problemsIn(await check())).toEqual([]);
  });

  it('names the missing right to use the schema and nothing else, and how to get it', async () => {
    await database.db.query('REVOKE USAGE ON SCHEMA public FROM petstore_service, PUBLIC');
    const found = await check();
    await database.db.query(/GRANT .*/.exec(found.role ?? '')?.[0] ?? '');
    const afterwards = await check();
    await database.db.query('GRANT USAGE ON SCHEMA public TO PUBLIC');
    expect(problemsIn(found)).toEqual([
      `error: "${login.role}" lacks USAGE ON SCHEMA public → Run as the owner: GRANT USAGE ON SCHEMA public TO petstore_service;`,
    ]);
    expect(found).toMatchObject({ schema: NO_USAGE, list: NO_USAGE, 'expiring keys': NO_USAGE });
    expect(problemsIn(afterwards)).toEqual([]);
  });

  it('says how to record a migration whose objects are there', async () => {
    const [name] = readdirSync(join(PROJECT_ROOT, 'prisma', 'migrations'))
      .filter((entry) => /^\d/.test(entry))
      .sort()
      .slice(-1);
    await database.db.query('DELETE FROM _prisma_migrations WHERE migration_name = $1', [name]);
    await expect(prismaMigrate('deploy', database.url)).rejects.toThrow('P3018');
    const { schema = '' } = await check();
    await prismaMigrate(/resolve [^"]*/.exec(schema)?.[0] ?? '', database.url);
    expect(await prismaMigrate('deploy', database.url)).toContain('No pending migrations');
    expect(schema).toContain(
      `error: the migration ${name} was interrupted or has failed, but what it makes is there → `,
    );
    expect(problemsIn(await check())).toEqual([]);
  });

  it.each([
    ['GRANT TRIGGER ON orders TO OTHER', 'OTHER has TRIGGER ON orders'],
    ['GRANT DELETE, INSERT (id) ON orders TO OTHER', 'OTHER has DELETE, INSERT (id) ON orders'],
    ['GRANT REFERENCES (id) ON api_keys TO PUBLIC', 'PUBLIC has REFERENCES (id) ON api_keys'],
    [
      'GRANT INSERT ON order_list_changes, _prisma_migrations TO OTHER',
      'OTHER has INSERT ON _prisma_migrations; OTHER has INSERT ON order_list_changes',
    ],
    [
      `CREATE TABLE "Their s" (key uuid CONSTRAINT theirs_fkey REFERENCES api_keys ON DELETE CASCADE); ALTER TABLE "Their s" OWNER TO OTHER`,
      'theirs_fkey of "Their s" refers to api_keys',
    ],
  ])('warns about what others may do with the tables, and how to end it: %s', async (change, expected) => {
    const other = `other_${login.role}`;
    const named = (text: string): string => text.replaceAll('OTHER', other);
    await database.db.query(`CREATE ROLE ${other}; ${named(change)}`);
    const { grants = '' } = await check();
    await database.db.query(grants.split('the table that each names: ')[1] ?? '');
    const afterwards = await check();
    await database.db.query(`DROP OWNED BY ${other}; DROP ROLE ${other}`);
    expect(grants).toContain(`warning: ${named(expected)}: this lets others run code as whoever writes the table`);
    expect(problemsIn(afterwards)).toEqual([]);
  });

  it('prints a name with a line end in the line of its check', async () => {
    await database.db.query(`CREATE ROLE "a\nb ${login.role}"; GRANT TRIGGER ON orders TO "a\nb ${login.role}"`);
    const { stdout } = await petstore(['doctor'], { DATABASE_URL: login.url, ...ports });
    await database.db.query(`DROP OWNED BY "a\nb ${login.role}"; DROP ROLE "a\nb ${login.role}"`);
    expect(stdout).toContain(`FROM "a\\u000ab ${login.role}" CASCADE;`);
    expect(stdout).not.toMatch(/^b /m);
  });

  it('does not warn about a login that may read, one that runs commands, or the tables of the owner that refer to orders', async () => {
    const other = `other_${login.role}`;
    await database.db.query(`
      CREATE ROLE ${other}; GRANT SELECT ON orders, api_key_usage TO ${other};
      GRANT SELECT, INSERT, UPDATE ON api_keys TO ${other}; GRANT SELECT, INSERT ON orders TO ${other};
      CREATE TABLE ours (order_id bigint REFERENCES orders)`);
    const found = await check();
    await database.db.query(`DROP TABLE ours; DROP OWNED BY ${other}; DROP ROLE ${other}`);
    expect(problemsIn(found)).toEqual([]);
  });

  it.each([
    [
      'a superuser has applied a migration',
      `ALTER FUNCTION merge_order_list_changes(bigint,bigint) OWNER TO OTHER; ALTER TYPE plan OWNER TO OTHER`,
      'FUNCTION merge_order_list_changes(bigint,bigint) to OTHER, TYPE plan to OTHER',
    ],
    ['the orders have got another owner', 'ALTER TABLE orders OWNER TO OTHER', 'TABLE orders to OTHER'],
  ])(
    'names what belongs to another role than the rest, and how to return it, when %s',
    async (_what, change, found) => {
      const other = `other_${login.role}`;
      await database.db.query(`CREATE ROLE ${other} SUPERUSER; ${change.replaceAll('OTHER', other)}`);
      const { schema = '', role } = await check();
      const [, remedy] = /→ Run as a superuser: (.*;) Apply/.exec(schema) ?? [];
      await database.db.query(`${remedy}; DROP ROLE ${other}`);
      const belongs = `not everything belongs to petstore, but ${found.replaceAll('OTHER', other)}: later migrations may fail`;
      expect(schema).toContain(`warning: ${belongs}`);
      expect(role).toMatch(/^ok: /);
      expect(problemsIn(await check())).toEqual([]);
    },
  );

  it('compares definitions in the form that they have by default', async () => {
    await database.db.query(withNames('ALTER DATABASE DATABASE SET standard_conforming_strings = off'));
    const found = await check();
    await database.db.query(withNames('ALTER DATABASE DATABASE RESET standard_conforming_strings'));
    expect(problemsIn(found)).toEqual([]);
  });

  it("tells the owner to give the service's login the right to connect before everybody loses it", async () => {
    await database.db.query(withNames('GRANT CONNECT ON DATABASE DATABASE TO PUBLIC'));
    const { access } = await check({ DATABASE_URL: database.url });
    await database.db.query(withNames('REVOKE CONNECT ON DATABASE DATABASE FROM PUBLIC'));
    expect(access).toBe(
      withNames(
        'warning: every login of the server has CONNECT on this database → First GRANT CONNECT ON DATABASE DATABASE TO the login of the ' +
          'service, which else cannot connect any more. Run as the owner of the database: REVOKE ALL ON DATABASE DATABASE FROM PUBLIC;',
      ),
    );
  });

  it('warns while another login could have code run with its privileges', async () => {
    const other = await createServiceLogin(database, '');
    await database.db.query(
      withNames(`GRANT CONNECT ON DATABASE DATABASE TO ${other.role}; GRANT CREATE ON SCHEMA public TO ${other.role}`),
    );
    const found = await check().finally(() => other.drop());
    expect(found.access).toBe(
      `warning: migrations end with an error, because others could run code with their privileges: "${other.role}" may create in the ` +
        `schema public → Run as a superuser, or as the owner of the schema: REVOKE CREATE ON SCHEMA public FROM ${other.role} CASCADE; ` +
        'Then end all other sessions and prepared transactions, as "Who may create in the schema" in docs/operations.md says.',
    );
    expect(found).toMatchObject({ database: matching('^ok: '), schema: matching('^ok: '), role: matching('^ok: ') });
  });

  it.each([
    ['it cannot find out whether another login could', 'SELECT ON pg_operator', 'table pg_operator'],
    ['a statement before the checks fails', 'EXECUTE ON FUNCTION set_config', 'function set_config'],
  ])('prints the error of the server, and checks nothing, when %s', async (_when, right, denied) => {
    await database.db.query(`REVOKE ${right} FROM PUBLIC`);
    const found = await check().finally(() => database.db.query(`GRANT ${right} TO PUBLIC`));
    const message = `^error: permission denied for ${denied} → Correct this error`;
    expect(found).toMatchObject({ database: matching(message), access: SKIPPED, schema: SKIPPED });
  });

  it('prints the error of the server when it accepts no further connection', async () => {
    const proxy = await TcpProxy.start(login.url, 'petstore-doctor');
    proxy.rejectConnections();
    const found = await check({ DATABASE_URL: proxy.urlFor(login.url) }).finally(() => proxy.close());
    expect(found).toMatchObject({ database: matching('^error: Connection terminated .* → Correct'), access: SKIPPED });
  });

  it('accepts what an operator has added', async () => {
    await database.db.query('CREATE INDEX own ON orders (pet_id); ALTER TABLE api_keys ADD COLUMN note text');
    const { schema } = await check();
    await database.db.query('DROP INDEX own; ALTER TABLE api_keys DROP COLUMN note');
    expect(schema).toBe('ok: as the migrations made it');
  });

  it('expects all that the migrations make', async () => {
    const client = new pg.Client(database.url);
    await client.connect();
    await client.query(sessionSettings());
    const { rows } = await client.query<{ fact: string }>(SELECT_SCHEMA);
    await client.end();
    // Of the primary keys, and from PostgreSQL 18 on of columns that are not null.
    const repeated = /^(?:CREATE UNIQUE INDEX \w+_pkey|constraint \w+ NOT NULL)/;
    const facts = rows.map(({ fact }) => fact).filter((fact) => !repeated.test(fact));
    expect(facts.sort()).toEqual([...EXPECTED_SCHEMA].sort());
  });

  it('warns when the login is the owner', async () => {
    const { role } = await check({ DATABASE_URL: database.url });
    expect(role).toMatch(/^warning: "petstore" owns the tables or is a superuser/);
  });

  it.each([
    ['DROP TABLE orders', 'error: missing: table orders, ordinary, without row-level security; column orders.id'],
    ['DROP TABLE orders', ' more → Apply the migrations'],
    ['DROP TABLE orders', 'skipped: not checked: there is no table orders', 'list'],
    [
      'ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY',
      'error: missing: table api_keys, ordinary, without row-level security → ',
    ],
    ['ALTER TABLE orders DROP CONSTRAINT orders_pkey', 'error: missing: constraint orders_pkey PRIMARY KEY (id) → '],
    [
      'DROP INDEX api_keys_key_hash_key',
      'error: missing: CREATE UNIQUE INDEX api_keys_key_hash_key ON public.api_keys',
    ],
    [
      'ALTER TABLE orders DROP CONSTRAINT orders_quantity_positive',
      'error: missing: constraint orders_quantity_positive',
    ],
    [
      `ALTER TABLE orders DROP CONSTRAINT orders_quantity_positive;
       ALTER TABLE orders ADD CONSTRAINT orders_quantity_positive CHECK (quantity >= 1) NOT VALID`,
      'error: missing: constraint orders_quantity_positive CHECK ((quantity >= 1)) → ',
    ],
    ['ALTER TABLE orders ALTER pet_id DROP NOT NULL', 'error: missing: column orders.pet_id bigint NOT NULL → '],
    [
      'ALTER TABLE orders ALTER id DROP IDENTITY',
      'error: missing: column orders.id bigint NOT NULL IDENTITY; sequence',
    ],
    ['ALTER SEQUENCE orders_id_seq RENAME TO orders_id_seq1', 'error: missing: sequence of orders.id orders_id_seq → '],
    ["ALTER TYPE plan RENAME VALUE 'pro' TO 'professional'", 'error: missing: '],
    ['DROP FUNCTION compact_order_list_changes', 'error: missing: function compact_order_list_changes(bigint) '],
  ])('finds what was done to a table: %s', async (change, expected, name = 'schema') => {
    const broken = await createTestDatabase();
    const service = await createServiceLogin(broken);
    await broken.db.query(change);
    const found = await check({ DATABASE_URL: service.url });
    await service.drop();
    await broken.drop();
    expect(found[name]).toContain(expected);
  });

  it.each([
    [() => 'postgresql://app@127.0.0.1:1/x', /^error: DATABASE_URL is unreachable: connect ECONN/],
    [() => `${login.url}?sslmode=require`, /^error: DATABASE_URL .*with which TLS/],
  ])('reports an unusable server, and skips the checks that need it: %s', async (url, message) => {
    const found = await check({ DATABASE_URL: url() });
    expect(found.database).toMatch(message);
    const names = [
      'connection limit',
      'clock of PostgreSQL',
      'access',
      'grants',
      'schema',
      'list',
      'role',
      'expiring keys',
    ];
    expect(Object.keys(found).filter((name) => found[name] === SKIPPED)).toEqual(names);
  });

  it('reports that processes do not notice changed keys, and how to repair it', async () => {
    await database.db.query('ALTER TABLE api_keys DISABLE TRIGGER api_keys_notify_changed');
    const { schema } = await check();
    await database.db.query(/ALTER TABLE.*changed/.exec(schema ?? '')?.[0] ?? '');
    expect(schema).toMatch(/^error: the trigger api_keys_notify_changed does not report every changed key/);
    expect(problemsIn(await check())).toEqual([]);
  });

  it('warns about keys that expire within 30 days, not about expired or revoked ones', async () => {
    const inDays = (days: number): Date => new Date(Date.now() + days * DAY_MS);
    const soon = inDays(29);
    const { id } = await insertKey(database.db, { expires_at: soon });
    await insertKey(database.db, { expires_at: inDays(31) });
    await insertKey(database.db, { expires_at: inDays(-1) });
    await insertKey(database.db, { expires_at: inDays(2), revoked_at: inDays(-1) });
    const found = await check();
    await database.db.query('DELETE FROM api_keys');
    const day = soon.toISOString().slice(0, 10);
    expect(found['expiring keys']).toMatch(`warning: 1 within 30 days: ${id} on ${day} → `);
  });

  it('compares the running processes with the connection limit', async () => {
    const start = (): Promise<TestService> => startTestService({ database: { ...database, url: login.url } });
    const services = await Promise.all([start(), start()]);
    await database.db.query(`ALTER ROLE ${login.role} CONNECTION LIMIT 50`);
    const found = await check();
    await Promise.all(services.map((service) => service.stop()));
    await database.db.query(`ALTER ROLE ${login.role} CONNECTION LIMIT -1`);
    expect(found['connection limit']).toMatch(
      /^warning: 50 connections for 2 running processes \(20 each\) leave too few for a rolling update → .*so that 70 are available/,
    );
  });

  it('reports an error when its connection is lost', async () => {
    const unlock = await lockTable(database.db, 'api_keys');
    const checked = check();
    const terminated = async (): Promise<boolean> => (await database.db.query(TERMINATE_WAITING)).rowCount === 1;
    await waitFor(terminated, 'a check waits for the lock');
    await unlock();
    expect(await checked).toMatchObject({ database: matching('^ok: '), 'expiring keys': matching('^error: ') });
  });

  it('recognises its service on the port, and another program', async () => {
    const service = await startTestService({ database });
    const other = createServer((socket) => socket.end('220 mail.example.com ESMTP\r\n'));
    const otherPort = await listen(other);
    const found = await check({ PORT: String(service.port), METRICS_PORT: String(otherPort) });
    other.close();
    await service.stop();
    expect(found).toMatchObject({
      port: `ok: the service listens on 127.0.0.1:${service.port}`,
      'metrics port': matching(`^error: another program listens on 127.0.0.1:${otherPort}`),
    });
  });
});

describeWithRedis('runChecks with Redis', () => {
  let redis: RedisServer;

  beforeAll(async () => {
    redis = await RedisServer.start(['--appendonly', 'yes']);
  });
  afterAll(() => redis.stop());

  it('accepts an append-only Redis that evicts nothing, and sends it reading commands only', async () => {
    const before = await redis.commandCounts();
    const found = await check({ REDIS_URL: redis.url });
    expect(problemsIn(found)).toEqual([]);
    expect(found.Redis).toMatch(/^ok: \d.*append-only file and without eviction$/);
    const after = await redis.commandCounts();
    const used = Object.keys(after).filter((command) => after[command] !== before[command]);
    const reading = ['eval', 'info', 'time', 'client|setinfo', 'client|setname', 'select', 'ping', 'hello'];
    expect(used.filter((command) => !reading.includes(command))).toEqual([]);
  });

  it('works for the Redis user of docker-compose.yml, which may not run CONFIG', async () => {
    const script = readFileSync(join(__dirname, '..', '..', '..', 'deploy', 'make-secrets.sh'), 'utf8');
    const [, rules = ''] = /^user petstore on #\$digest (.*)$/m.exec(script) ?? [];
    await administrate(redis, (admin) =>
      admin.call('ACL', 'SETUSER', 'petstore', 'on', '>secret', ...rules.split(' ')),
    );
    const url = redis.url.replace('//', '//petstore:secret@');
    expect(problemsIn(await check({ REDIS_URL: url }))).toEqual([]);
  });

  it.each([
    ['~petstore:* +@all -eval -evalsha', /denies its user: NOPERM .*eval/],
    ['~other:* +@all', /denies its user: NOPERM .*key/],
    ['~petstore:* +@all -evalsha -hset', /denies its user: EVALSHA, HSET → Give the user the rights/],
  ])('reports what a Redis user may not do that the service does: %s', async (rules, expected) => {
    await administrate(redis, (admin) =>
      admin.call('ACL', 'SETUSER', 'limited', 'reset', 'on', '>secret', ...rules.split(' ')),
    );
    const found = await check({ REDIS_URL: redis.url.replace('//', '//limited:secret@') });
    expect(found.Redis).toMatch(expected);
    expect(found.Redis).toMatch(/^error: 127/);
  });

  it('says why a check did not run, and prints no password', async () => {
    const { exitCode, stdout } = await petstore(['doctor'], {
      ...ports,
      DATABASE_URL: `postgresql://app:hunter2@127.0.0.1:1/petstore`,
      REDIS_URL: redis.url.replace('//', `//petstore:hunter2@`),
    });
    expect(exitCode).toBe(2);
    expect(stdout).toMatch(
      /^error {4}database {13}DATABASE_URL is unreachable: connect ECONNREFUSED 127\.0\.0\.1:1\n {9}→ Correct DATABASE_URL/m,
    );
    expect(stdout).toMatch(/^skipped {2}schema {15}not checked: an earlier check has found a problem$/m);
    expect(stdout).toMatch(/^error {4}Redis {16}Redis cannot be used \(WRONGPASS/m);
    expect(stdout).not.toContain('hunter2');
  });

  it('ends when Redis does not respond, and the database no longer once it has accepted the login', async () => {
    // AuthenticationOk and ReadyForQuery.
    const ready = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0, 0x5a, 0, 0, 0, 5, 0x49]);
    const silent = createServer((socket) => {
      socket.on('error', () => undefined).once('data', () => socket.write(ready));
    });
    const port = await listen(silent);
    redis.freeze();
    const found = await check({
      DATABASE_URL: `postgresql://app@127.0.0.1:${port}/petstore`,
      REDIS_URL: redis.url,
    }).finally(() => redis.thaw());
    silent.close();
    expect(found).toMatchObject({
      database: matching(/^error: DATABASE_URL is unreachable/),
      'connection limit': SKIPPED,
      role: SKIPPED,
      Redis: matching(/^error: Redis cannot be used \(/),
    });
  });
});
