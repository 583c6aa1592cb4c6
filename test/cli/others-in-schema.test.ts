import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { petstore } from '../helpers/petstore.js';
import { deployByEngine } from '../helpers/prisma-migrate.js';
import { createServiceLogin } from '../helpers/service-login.js';
import { createTestDatabase, type TestDatabase, useTestDatabase } from '../helpers/test-database.js';

const suffix = randomBytes(4).toString('hex');
/** Logins: the owner of the tables, another member of its role, another installation's, and one that may not connect. */
const [team, owner, colleague, stranger, outsider] = ['team', 'owner', 'colleague', 'stranger', 'outsider'].map(
  (name) => `${name}_${suffix}`,
) as [string, string, string, string, string];
const ROLES = [team, owner, colleague, stranger, outsider];
/** The beginning of a remedy that takes objects out of the way. */
const IF_TRUSTED = 'If you trust that role, use its login. Otherwise:';
const TABLES = ['orders', 'api_keys', 'order_list_changes', 'api_key_usage', '_prisma_migrations'];

const database = useTestDatabase();
const nameOfDatabase = (): string => new URL(database.url).pathname.slice(1);

function urlOf(login: string): string {
  return Object.assign(new URL(database.url), { username: login, password: 'test' }).href;
}

const OPERATIONS = readFileSync(join(__dirname, '..', '..', 'docs', 'operations.md'), 'utf8');
/** The documented statement. */
const [END_SESSIONS = ''] = /^SELECT pg_terminate_backend[^;]*;/m.exec(OPERATIONS) ?? [];
/** The end of a remedy for those who may create. */
const END_OTHERS =
  'Then end all other sessions and prepared transactions, as "Who may create in the schema" in docs/operations.md says.';

/** What a command that goes on writes to stderr, in one line. */
const warningOf = (login: string, problem: string): string =>
  `warning: Others could run code with the privileges of "${login}" in this database: ${problem}\n`;

/** Runs the statements of a remedy. */
async function follow(remedy: string): Promise<void> {
  await database.db.query((remedy.match(/(?:ALTER|DROP|GRANT|RESET|REVOKE|SET) [^;]*;/g) ?? []).join(' '));
}

describe('a command whose login has the privileges of the owner', () => {
  beforeAll(async () => {
    await database.db.query(`
      CREATE ROLE ${team};
      CREATE ROLE ${owner} LOGIN PASSWORD 'test' IN ROLE ${team}; CREATE ROLE ${colleague} LOGIN PASSWORD 'test' IN ROLE ${team};
      CREATE ROLE ${stranger} LOGIN; CREATE ROLE ${outsider} LOGIN;
      REVOKE ALL ON DATABASE ${nameOfDatabase()} FROM PUBLIC;
      GRANT CONNECT ON DATABASE ${nameOfDatabase()} TO ${team}, ${stranger};
      GRANT CREATE ON SCHEMA public TO ${team};
      ${TABLES.map((table) => `ALTER TABLE ${table} OWNER TO ${team};`).join(' ')}
      ALTER TYPE plan OWNER TO ${team}; ALTER TYPE order_status OWNER TO ${team};
      DO $$ DECLARE name text; BEGIN
        FOR name IN SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'public'::regnamespace LOOP
          EXECUTE format('ALTER ROUTINE %s OWNER TO ${team}', name);
        END LOOP;
      END $$`);
  });
  afterAll(() => database.db.query(`DROP OWNED BY ${ROLES.join(', ')} CASCADE; DROP ROLE ${ROLES.join(', ')}`));

  it.each([
    ['nothing has changed', '', ''],
    [
      'a login that may not connect may create',
      `GRANT CREATE ON SCHEMA public TO ${outsider}`,
      `REVOKE CREATE ON SCHEMA public FROM ${outsider}`,
    ],
    [
      'another login has a view in the schema and a schema of its own',
      `CREATE VIEW theirs AS SELECT 1 AS one; ALTER VIEW theirs OWNER TO ${stranger}; CREATE SCHEMA ${stranger} AUTHORIZATION ${stranger}`,
      `DROP VIEW theirs; DROP SCHEMA ${stranger}`,
    ],
    [
      'another login has a function and an operator with names of their own',
      `CREATE FUNCTION report(date) RETURNS date LANGUAGE sql AS 'SELECT $1'; ALTER FUNCTION report OWNER TO ${stranger};
       CREATE OPERATOR ~~~~ (FUNCTION = report, RIGHTARG = date); ALTER OPERATOR ~~~~ (NONE, date) OWNER TO ${stranger}`,
      'DROP OPERATOR ~~~~ (NONE, date); DROP FUNCTION report',
    ],
    ['an extension is installed', 'CREATE EXTENSION citext', 'DROP EXTENSION citext'],
  ])('warns of nothing when %s', async (_what, change, undo) => {
    await database.db.query(change);
    for (const login of [owner, colleague]) {
      const result = await petstore(['keys', 'list', '--json'], { DATABASE_URL: urlOf(login) });
      expect(result).toEqual({ exitCode: 0, stdout: '[]\n', stderr: '' });
    }
    await database.db.query(undo);
  });

  it.each([
    [
      'everybody may create',
      'GRANT CREATE ON SCHEMA public TO PUBLIC',
      `"${stranger}" may create in the schema public. Run as a superuser, or as the owner of the schema: ` +
        `GRANT CREATE ON SCHEMA public TO ${team}; REVOKE CREATE ON SCHEMA public FROM PUBLIC; ${END_OTHERS}`,
    ],
    [
      'a login may create as a member of a role',
      `CREATE ROLE writers_${suffix}; GRANT CREATE ON SCHEMA public TO writers_${suffix}; GRANT writers_${suffix} TO ${stranger}`,
      `"${stranger}" may create in the schema public. Run as a superuser, or as the owner of the schema: ` +
        `REVOKE CREATE ON SCHEMA public FROM writers_${suffix} CASCADE; ${END_OTHERS}`,
    ],
    [
      'a login may create because another role than the owner of the schema has granted it',
      `CREATE ROLE writers_${suffix} NOINHERIT; GRANT CREATE ON SCHEMA public TO ${team} WITH GRANT OPTION;
       GRANT ${team} TO writers_${suffix}; SET ROLE ${team}; GRANT CREATE ON SCHEMA public TO ${stranger}; RESET ROLE`,
      `"${stranger}" may create in the schema public. Run as a superuser: SET ROLE ${team}; ` +
        `REVOKE CREATE ON SCHEMA public FROM ${stranger} CASCADE; RESET ROLE; ${END_OTHERS}`,
    ],
    [
      'a login that may no longer create has a function and an operator',
      `CREATE FUNCTION their_function(uuid, date) RETURNS boolean LANGUAGE sql AS 'SELECT true';
       CREATE OPERATOR <> (FUNCTION = their_function, LEFTARG = uuid, RIGHTARG = date);
       ALTER FUNCTION their_function OWNER TO ${stranger}; ALTER OPERATOR <> (uuid, date) OWNER TO ${stranger}`,
      'other roles own OPERATOR public.<>(pg_catalog.uuid,pg_catalog.date). ' +
        `${IF_TRUSTED} Run as a superuser, or as the owner of the schema: DROP OPERATOR public.<>(pg_catalog.uuid,pg_catalog.date);`,
    ],
    [
      'another login has an operator and its function, and an aggregate',
      `CREATE FUNCTION lower(oid, date) RETURNS boolean LANGUAGE sql AS 'SELECT true';
       CREATE OPERATOR <> (FUNCTION = lower, LEFTARG = oid, RIGHTARG = date);
       CREATE AGGREGATE public.count(*) (SFUNC = int8inc, STYPE = int8, INITCOND = 0);
       ALTER FUNCTION public.lower(oid, date) OWNER TO ${stranger}; ALTER OPERATOR <> (oid, date) OWNER TO ${stranger};
       ALTER AGGREGATE public.count(*) OWNER TO ${stranger}`,
      'other roles own AGGREGATE public.count(), FUNCTION public.lower(pg_catalog.oid,pg_catalog.date), OPERATOR public.<>(pg_catalog.oid,pg_catalog.date). ' +
        `${IF_TRUSTED} Run as a superuser, or as the owner of the schema: DROP OPERATOR public.<>(pg_catalog.oid,pg_catalog.date); ` +
        'DROP ROUTINE public.count(); DROP ROUTINE public.lower(pg_catalog.oid,pg_catalog.date);',
    ],
    [
      'routines of another login have the names of one of PostgreSQL and of one of the service',
      `CREATE FUNCTION round(double precision, integer) RETURNS numeric LANGUAGE sql AS 'SELECT 1.0';
       CREATE FUNCTION merge_order_list_changes(integer, integer) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
       ALTER FUNCTION round(double precision, integer) OWNER TO ${stranger};
       ALTER FUNCTION merge_order_list_changes(integer, integer) OWNER TO ${stranger}`,
      'other roles own FUNCTION public.merge_order_list_changes(integer,integer), FUNCTION public.round(double precision,integer). ' +
        `${IF_TRUSTED} Run as a superuser, or as the owner of the schema: ` +
        'DROP ROUTINE public.merge_order_list_changes(integer,integer); DROP ROUTINE public.round(double precision,integer);',
    ],
  ])('warns with a remedy that works when %s', async (_what, change, problem) => {
    await database.db.query(change);
    for (const login of [owner, colleague]) {
      expect(await petstore(['keys', 'list', '--json'], { DATABASE_URL: urlOf(login) })).toEqual({
        exitCode: 0,
        stdout: '[]\n',
        stderr: warningOf(login, problem),
      });
    }
    await follow(problem);
    const after = await petstore(['keys', 'list', '--json'], { DATABASE_URL: urlOf(owner) });
    expect(after).toEqual({ exitCode: 0, stdout: '[]\n', stderr: '' });
    await database.db.query(`
      DROP FUNCTION IF EXISTS their_function; DROP ROLE IF EXISTS writers_${suffix}`);
  });

  it.each([
    ['may no longer connect', () => `REVOKE ALL ON DATABASE ${nameOfDatabase()} FROM ${stranger}`],
    ['may no longer log in', () => `ALTER ROLE ${stranger} NOLOGIN`],
  ])(
    'warns when a session may create whose login %s, and what it has begun ends as documented',
    async (_what, change) => {
      await database.db.query(`ALTER ROLE ${stranger} PASSWORD 'test'; GRANT CREATE ON SCHEMA public TO PUBLIC`);
      const session = new pg.Client(urlOf(stranger));
      session.on('error', () => undefined);
      const ended = new Promise<void>((resolve) => session.once('end', resolve));
      await session.connect();
      // Nobody else sees the function yet.
      await session.query('BEGIN');
      await session.query(`CREATE FUNCTION floor(integer) RETURNS numeric LANGUAGE sql AS 'SELECT 1.0'`);
      await database.db.query(change());
      const { exitCode, stderr } = await petstore(['keys', 'list'], { DATABASE_URL: urlOf(owner) });
      expect({ exitCode, stderr }).toEqual({
        exitCode: 0,
        stderr: expect.stringMatching(
          `: "${stranger}" may create in the schema public\\. .* ${END_OTHERS}\n$`,
        ) as string,
      });
      await follow(stderr);
      // Superusers stay, as does the connection of the tests.
      await database.db.query(END_SESSIONS.replace("'petstore'", 'current_database()'));
      await ended;
      expect((await petstore(['keys', 'list', '--json'], { DATABASE_URL: urlOf(owner) })).stderr).toBe('');
      await database.db.query(`
      GRANT CONNECT ON DATABASE ${nameOfDatabase()} TO ${stranger}; ALTER ROLE ${stranger} LOGIN`);
    },
  );

  it.each([
    [
      'everybody may create, as on PostgreSQL 14',
      () => 'GRANT CREATE ON SCHEMA public TO PUBLIC',
      () => 'REVOKE CREATE ON SCHEMA public FROM PUBLIC',
      () => urlOf(owner),
      () => `Others could run code with the privileges of "${owner}" in this database: "${stranger}" may create`,
    ],
    [
      'another login owns a table',
      () => `ALTER TABLE api_key_usage OWNER TO ${stranger}`,
      () => `ALTER TABLE api_key_usage OWNER TO ${team}`,
      () => urlOf(owner),
      () =>
        `Others could run code with the privileges of "${owner}" in this database: other roles own TABLE public.api_key_usage`,
    ],
    [
      'the owner of the tables does not own the database, for a superuser',
      () => '',
      () => '',
      () => database.url,
      () => `Others could run code with the privileges of "petstore" in this database: "${colleague}", "${owner}" may`,
    ],
    [
      'the login may not find out',
      () => 'REVOKE SELECT ON pg_operator FROM PUBLIC',
      () => 'GRANT SELECT ON pg_operator TO PUBLIC',
      () => urlOf(owner),
      () => 'Cannot find out whether others may create in the schema public: permission denied for table pg_operator.',
    ],
  ])('revokes a key with a warning of one line when %s', async (_when, change, undo, url, beginning) => {
    const issued = await petstore(['keys', 'issue', '--name', 'X', '--plan', 'free', '--json'], {
      DATABASE_URL: urlOf(owner),
    });
    const { id } = JSON.parse(issued.stdout) as { id: string };
    await database.db.query(change());
    const { exitCode, stdout, stderr } = await petstore(['keys', 'revoke', id, '--json'], { DATABASE_URL: url() });
    await database.db.query(undo());
    expect({ exitCode, id: (JSON.parse(stdout) as { id: string }).id }).toEqual({ exitCode: 0, id });
    expect(stderr.startsWith(`warning: ${beginning()}`) ? 'as expected' : stderr).toBe('as expected');
    expect(stderr.indexOf('\n')).toBe(stderr.length - 1);
    const { rows } = await database.db.query(
      'DELETE FROM api_keys WHERE id = $1 RETURNING revoked_at <= now() AS revoked',
      [id],
    );
    expect(rows).toEqual([{ revoked: true }]);
  });

  it('escapes what commands a terminal in the names that others have given', async () => {
    await database.db.query(`
      CREATE TYPE "a\n\u001b[2Jb" AS ENUM (); CREATE FUNCTION lower("a\n\u001b[2Jb") RETURNS text LANGUAGE sql AS 'SELECT 1';
      ALTER FUNCTION lower("a\n\u001b[2Jb") OWNER TO ${stranger}`);
    const { stderr } = await petstore(['keys', 'list'], { DATABASE_URL: urlOf(owner) });
    await database.db.query('DROP TYPE "a\n\u001b[2Jb" CASCADE');
    expect(stderr).toContain('DROP ROUTINE public.lower(public."a\\u000a\\u001b[2Jb");');
    expect(stderr.trimEnd()).not.toMatch(/\p{Cc}/u);
  });

  it('warns when a login may create as a member of a role that got the right from another role', async () => {
    await database.db.query(`
      CREATE ROLE writers_${suffix} NOINHERIT; CREATE ROLE authors_${suffix}; GRANT authors_${suffix} TO ${stranger};
      GRANT CREATE ON SCHEMA public TO writers_${suffix} WITH GRANT OPTION; SET ROLE writers_${suffix};
      GRANT CREATE ON SCHEMA public TO authors_${suffix}; RESET ROLE`);
    const { exitCode, stderr } = await petstore(['keys', 'list'], { DATABASE_URL: urlOf(owner) });
    await database.db.query(`
      DROP OWNED BY writers_${suffix} CASCADE; DROP ROLE authors_${suffix}, writers_${suffix}`);
    expect({ exitCode, stderr }).toEqual({
      exitCode: 0,
      stderr: expect.stringContaining(`"${stranger}" may create in the schema public.`) as string,
    });
  });

  it('warns when any table of the service belongs to another login, until that is out of the way', async () => {
    const { rows } = await database.db.query<{ name: string }>(
      "SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'",
    );
    for (const { name } of rows) {
      await database.db.query(`ALTER TABLE ${name} OWNER TO ${stranger}`);
      // The sequence of the ids has the owner of the table.
      const sequence = name === 'orders' ? 'SEQUENCE public.orders_id_seq, ' : '';
      const renamed = (name === 'orders' ? ['orders_id_seq', 'orders'] : [name]).map(
        (each) =>
          `ALTER ${each === 'orders_id_seq' ? 'SEQUENCE' : 'TABLE'} public.${each} RENAME TO ${each}_of_${stranger};`,
      );
      const { stderr } = await petstore(['keys', 'list'], { DATABASE_URL: urlOf(owner) });
      expect(stderr).toContain(
        `: other roles own ${sequence}TABLE public.${name}. ${IF_TRUSTED} Run as a superuser: ${renamed.join(' ')}\n`,
      );
      await database.db.query(renamed.join(' '));
      const after = await petstore(['keys', 'list'], { DATABASE_URL: urlOf(owner) });
      expect(after.stderr).not.toContain('Others could');
      await database.db.query(`
        ALTER TABLE ${name}_of_${stranger} RENAME TO ${name}; ALTER TABLE ${name} OWNER TO ${team};
        ALTER SEQUENCE IF EXISTS orders_id_seq_of_${stranger} RENAME TO orders_id_seq`);
    }
    expect(rows.map(({ name }) => name).sort()).toEqual([...TABLES].sort());
  });

  it('warns when the tables belong to a role that the login has made, but whose privileges it does not have', async () => {
    const made = `made_${suffix}`;
    await database.db.query(`
      ALTER ROLE ${owner} CREATEROLE; SET ROLE ${owner}; CREATE ROLE ${made}; RESET ROLE; ALTER TABLE orders OWNER TO ${made}`);
    const { stderr } = await petstore(['keys', 'list'], { DATABASE_URL: urlOf(owner) });
    await database.db.query(`ALTER TABLE orders OWNER TO ${team}; DROP ROLE ${made}; ALTER ROLE ${owner} NOCREATEROLE`);
    expect(stderr).toContain('other roles own SEQUENCE public.orders_id_seq, TABLE public.orders');
  });

  it('warns a superuser, whose privileges the owner of the tables could use, but not when that owns the database', async () => {
    const { exitCode, stderr } = await petstore(['keys', 'list', '--json'], { DATABASE_URL: database.url });
    expect({ exitCode, stderr }).toEqual({
      exitCode: 0,
      stderr: expect.stringMatching(
        `^warning: Others could run code with the privileges of "petstore" in this database: "${colleague}", "${owner}" may create in the ` +
          `schema public, and other roles own SEQUENCE public.orders_id_seq, TABLE public._prisma_migrations, .*\\. ${IF_TRUSTED} Run as a superuser: .*\n$`,
      ) as string,
    });
    await database.db.query(`ALTER DATABASE ${nameOfDatabase()} OWNER TO ${team}`);
    const result = await petstore(['keys', 'list', '--json'], { DATABASE_URL: database.url });
    await database.db.query(`
      ALTER DATABASE ${nameOfDatabase()} OWNER TO petstore; GRANT CONNECT ON DATABASE ${nameOfDatabase()} TO ${team}`);
    expect(result).toEqual({ exitCode: 0, stdout: '[]\n', stderr: '' });
  });

  it('lets a login for commands run them with the documented rights, where the owner of the tables owns the database', async () => {
    await database.db.query(`
      ALTER DATABASE ${nameOfDatabase()} OWNER TO ${team};
      GRANT CONNECT, TEMPORARY ON DATABASE ${nameOfDatabase()} TO ${stranger}; ALTER ROLE ${stranger} PASSWORD 'test';
      GRANT SELECT, INSERT, UPDATE ON api_keys TO ${stranger}; GRANT SELECT ON api_key_usage TO ${stranger}`);
    const issued = await petstore(['keys', 'issue', '--name', 'X', '--plan', 'free'], {
      DATABASE_URL: urlOf(stranger),
    });
    const usage = await petstore(['keys', 'usage'], { DATABASE_URL: urlOf(stranger) });
    await database.db.query(`
      ALTER DATABASE ${nameOfDatabase()} OWNER TO petstore; GRANT CONNECT ON DATABASE ${nameOfDatabase()} TO ${team};
      REVOKE ALL ON api_keys, api_key_usage FROM ${stranger}; REVOKE TEMPORARY ON DATABASE ${nameOfDatabase()} FROM ${stranger}`);
    expect([issued.exitCode, usage.exitCode, issued.stderr + usage.stderr]).toEqual([0, 0, '']);
  });

  it('lets the login of the service check the database of a superuser', async () => {
    const login = await createServiceLogin(database);
    await database.db.query(`GRANT CONNECT ON DATABASE ${nameOfDatabase()} TO ${login.role}`);
    const { stdout } = await petstore(['doctor', '--json'], { DATABASE_URL: login.url, PORT: '0', METRICS_PORT: '0' });
    await login.drop();
    const { checks } = JSON.parse(stdout) as { checks: { name: string; status: string }[] };
    const statuses = checks.filter(({ name }) => ['access', 'schema', 'role'].includes(name));
    expect(statuses.map(({ status }) => status)).toEqual(['ok', 'ok', 'ok']);
  });

  it('goes on where a migration ends with an error', async () => {
    await database.db.query('GRANT CREATE ON SCHEMA public TO PUBLIC');
    expect(await petstore(['keys', 'list'], { DATABASE_URL: urlOf(owner) })).toMatchObject({ exitCode: 0 });
    await expect(deployByEngine(urlOf(owner))).rejects.toThrow(
      `Others could run code with the privileges of "${owner}" in this database: "${stranger}" may create in the schema public. Run as`,
    );
    await database.db.query('REVOKE CREATE ON SCHEMA public FROM PUBLIC');
    await deployByEngine(urlOf(owner));
  });
});

/** What a stranger has run notes whose privileges it has. */
const SPY = `
  CREATE TABLE theirs.seen (login text); GRANT INSERT ON theirs.seen TO PUBLIC; GRANT USAGE ON SCHEMA theirs TO PUBLIC;
  CREATE FUNCTION theirs.note() RETURNS boolean LANGUAGE sql AS 'INSERT INTO theirs.seen VALUES (current_user); SELECT true';
  CREATE FUNCTION theirs.fire() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM theirs.note(); RETURN NEW; END'`;
const COLUMNS = `
  1 AS pet_id, 1 AS quantity, now() AS ship_date, true AS complete, 'shipped' AS status, now() AS created_at, now() AS cancelled_at`;

describe('a migration, where a stranger has made a relation before the first one', () => {
  const migrate = (url: string): Promise<string> => deployByEngine(url).then(() => '', String);

  const [installer, intruder, devs] = ['installer', 'intruder', 'devs'].map((role) => `${role}_${suffix}`) as [
    string,
    string,
    string,
  ];
  let attacked: TestDatabase;
  let name: string;
  /** The URL of the installer. */
  let login: string;
  beforeEach(async () => {
    attacked = await createTestDatabase();
    const url = new URL(attacked.url);
    name = url.pathname.slice(1);
    login = Object.assign(url, { username: installer, password: 'test' }).href;
    await attacked.db.query(`
      CREATE ROLE ${devs}; CREATE ROLE ${installer} LOGIN PASSWORD 'test'; CREATE ROLE ${intruder} LOGIN`);
  });
  afterEach(async () => {
    const roles = [installer, intruder, devs].join(', ');
    await attacked.db.query(
      `ALTER DATABASE ${name} OWNER TO petstore; DROP OWNED BY ${roles} CASCADE; DROP ROLE ${roles}`,
    );
    await attacked.drop();
  });

  it.each([
    [
      'the record of the migrations, with a trigger',
      `CREATE TABLE _prisma_migrations (
         id text, checksum text, finished_at timestamptz, migration_name text, logs text, rolled_back_at timestamptz,
         started_at timestamptz DEFAULT now(), applied_steps_count integer DEFAULT 0);
       GRANT ALL ON _prisma_migrations TO PUBLIC;
       CREATE TRIGGER spy BEFORE INSERT ON _prisma_migrations FOR EACH ROW EXECUTE FUNCTION theirs.fire()`,
      'TABLE public._prisma_migrations',
    ],
    [
      'a view as the orders',
      `CREATE VIEW orders AS SELECT 1::bigint AS id, ${COLUMNS} WHERE theirs.note(); GRANT ALL ON orders TO PUBLIC`,
      'VIEW public.orders',
    ],
    [
      'a sequence of that name, beside which the migration makes another one',
      'CREATE SEQUENCE orders_id_seq; GRANT ALL ON orders_id_seq TO PUBLIC',
      'SEQUENCE public.orders_id_seq',
    ],
    [
      'a view as the sequence of their ids, beside which the migration makes another one',
      `CREATE VIEW orders_id_seq AS SELECT 1::bigint AS last_value, theirs.note() AS is_called; GRANT ALL ON orders_id_seq TO PUBLIC`,
      'VIEW public.orders_id_seq',
    ],
    [
      'the table of the orders, with an operator for its type',
      `CREATE TABLE orders AS SELECT '1'::varchar AS id, ${COLUMNS}; GRANT ALL ON orders TO PUBLIC;
       CREATE FUNCTION equals(varchar, varchar) RETURNS boolean LANGUAGE sql AS 'SELECT theirs.note()';
       CREATE OPERATOR = (FUNCTION = equals, LEFTARG = varchar, RIGHTARG = varchar)`,
      'OPERATOR public.=(character varying,character varying), TABLE public.orders',
    ],
  ])('runs nothing as the owner: %s', async (_what, attack, found) => {
    const { db, url } = attacked;
    // As it is installed: the database may belong to a superuser.
    await db.query(`
      DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC;
      CREATE SCHEMA theirs AUTHORIZATION ${intruder};
      GRANT CREATE ON SCHEMA public TO ${installer}, ${intruder};
      SET ROLE ${intruder}; ${SPY}; ${attack}; RESET ROLE;
      REVOKE CREATE ON SCHEMA public FROM ${intruder}`);
    const output = [await migrate(login), await migrate(url)];
    const { rows } = await db.query('SELECT login FROM theirs.seen');
    expect(rows).toEqual([]);
    for (const text of output) {
      expect(text).toContain(`other roles own ${found}. ${IF_TRUSTED} Run as a superuser`);
    }
  });

  it.each([
    ['the owner of the database', 'pg_monitor'],
    ['the owner of the database', devs],
    ['no owner', 'pg_monitor'],
    ['no owner', devs],
  ])('runs nothing when it was given to a role that the stranger shares with %s: %s', async (who, shared) => {
    await attacked.db.query(`
      GRANT ${devs}, pg_monitor TO ${installer}, ${intruder};
      ${who === 'no owner' ? '' : `ALTER DATABASE ${name} OWNER TO ${installer};`}
      DROP SCHEMA public CASCADE; CREATE SCHEMA public;
      GRANT CREATE, USAGE ON SCHEMA public TO PUBLIC; CREATE SCHEMA theirs AUTHORIZATION ${intruder};
      SET ROLE ${intruder}; ${SPY};
      CREATE TABLE _prisma_migrations (migration_name text); ALTER TABLE _prisma_migrations OWNER TO ${shared};
      CREATE FUNCTION equals(oid, regprocedure) RETURNS boolean LANGUAGE sql AS 'SELECT theirs.note()';
      CREATE OPERATOR = (FUNCTION = equals, LEFTARG = oid, RIGHTARG = regprocedure); RESET ROLE;
      GRANT CREATE ON SCHEMA public TO ${installer}; REVOKE CREATE ON SCHEMA public FROM PUBLIC`);
    expect(await migrate(login)).toContain(
      'other roles own OPERATOR public.=(pg_catalog.oid,pg_catalog.regprocedure), TABLE public._prisma_migrations',
    );
  });

  it.each(['the owner of the database', 'no owner'])(
    'runs nothing and gets no right, where everybody may create or could before, for %s',
    async (who) => {
      const { db } = attacked;
      await db.query(`
      ${who === 'no owner' ? '' : `ALTER DATABASE ${name} OWNER TO ${installer};`}
      CREATE SCHEMA theirs AUTHORIZATION ${intruder}; GRANT CREATE ON SCHEMA public TO PUBLIC;
      ${TABLES.map((table) => `ALTER TABLE ${table} OWNER TO ${intruder}; GRANT ALL ON ${table} TO PUBLIC;`).join(' ')}
      SET ROLE ${intruder}; ${SPY};
      CREATE TRIGGER spy BEFORE INSERT ON api_keys FOR EACH ROW EXECUTE FUNCTION theirs.fire();
      CREATE TRIGGER spy BEFORE INSERT ON _prisma_migrations FOR EACH ROW EXECUTE FUNCTION theirs.fire(); RESET ROLE;
      DELETE FROM _prisma_migrations WHERE migration_name = (SELECT max(migration_name) FROM _prisma_migrations)`);
      const output = [await migrate(login)];
      await db.query('REVOKE CREATE ON SCHEMA public FROM PUBLIC');
      output.push(await migrate(login));
      const { rows } = await db.query('SELECT login FROM theirs.seen');
      expect(rows).toEqual([]);
      for (const text of output) {
        expect(text).toContain('other roles own SEQUENCE public.orders_id_seq, TABLE public._prisma_migrations');
        expect(text).not.toContain(`TO ${intruder}`);
      }
    },
  );
});
