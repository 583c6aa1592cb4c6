import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { installFirstRelease } from '../helpers/first-release.js';
import { openTransaction } from '../helpers/lock-waits.js';
import { openPool } from '../helpers/open-pool.js';
import { type CommandResult, runProcess } from '../helpers/petstore.js';
import { deployByEngine, prismaMigrate } from '../helpers/prisma-migrate.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';
import { createTestDatabase, type TestDatabase, useTestDatabase } from '../helpers/test-database.js';
import { startTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

const ROOT = join(__dirname, '..', '..');
const PRISMA = join(ROOT, 'node_modules', 'prisma', 'build', 'index.js');
const SCHEMA = readFileSync(join(ROOT, 'prisma', 'schema.prisma'), 'utf8');
const SERVICE_ROLE_MIGRATION = join(ROOT, 'prisma', 'migrations', '20261122000003_service_role', 'migration.sql');

/** What a role or a database may set, and a statement or its result depends on. */
const OTHER_DEFAULTS = [
  'search_path = elsewhere, public',
  "default_transaction_isolation = 'repeatable read'",
  "datestyle = 'German, DMY'",
  "timezone = 'Asia/Kathmandu'",
  'quote_all_identifiers = on',
  'standard_conforming_strings = off',
  "bytea_output = 'escape'",
];

/** With characters that a URL must encode. */
const PASSWORD = 'a:b/c@d';

const folder = useTemporaryFolder('migrations');

/** A database of its own without tables. @param options of CREATE DATABASE */
async function withEmptyDatabase(
  options: string,
  work: (database: TestDatabase & { readonly name: string }) => Promise<void>,
): Promise<void> {
  const database = await createTestDatabase();
  const name = `${new URL(database.url).pathname.slice(1)}_empty`;
  await database.db.query(`CREATE DATABASE ${name} ${options}`);
  const url = Object.assign(new URL(database.url), { pathname: `/${name}` }).href;
  const db = openPool({ connectionString: url, max: 2 });
  try {
    await work({ url, db, name, drop: () => Promise.resolve() });
  } finally {
    await db.end();
    await database.db.query(`DROP DATABASE ${name} WITH (FORCE)`);
    await database.drop();
  }
}

describe('migrations', () => {
  it.each([
    ['produce the schema of schema.prisma', 0, '', 'No difference detected'],
    ['are reported by db:check when they lack a column of the schema', 2, 'extra String?', 'Added column `extra`'],
  ])('%s', async (_what, exitCode, column, found) => {
    const schema = join(folder, 'schema.prisma');
    writeFileSync(schema, SCHEMA.replace('model Order {', `model Order {\n${column}`));
    const command = ['npm', 'run', '--silent', 'db:check', '--', '--to-schema', schema];
    const result = await runProcess(command, { DATABASE_URL: process.env.TEST_POSTGRES_URL! });
    expect(result).toMatchObject({ exitCode, stdout: expect.stringContaining(found) as string });
  });

  it('are applied by the documented command where only the database can be reached', async () => {
    await withEmptyDatabase('', async ({ url, db }) => {
      const attempts = join(folder, 'attempts');
      const offline = {
        DATABASE_URL: url,
        // Without what an earlier command has downloaded.
        HOME: join(folder, 'home'),
        NODE_OPTIONS: `--import ${pathToFileURL(join(ROOT, 'test', 'helpers', 'no-network.mjs')).href}`,
        ALLOWED_PORT: new URL(url).port,
        ATTEMPTS: attempts,
        // npm and Prisma ask for updates of their own, which nothing waits for.
        NPM_CONFIG_UPDATE_NOTIFIER: 'false',
        CHECKPOINT_DISABLE: '1',
      };
      const request = `fetch('http://127.0.0.1:20000').catch(({ cause }) => console.log(cause.code))`;
      const tried = await runProcess([process.execPath, '--eval', request], offline);
      expect([tried.stdout, readFileSync(attempts, 'utf8')]).toEqual(['ENETUNREACH\n', '127.0.0.1:20000\n']);
      rmSync(attempts);

      const applied = await runProcess(['npx', 'prisma', 'migrate', 'deploy'], offline);
      expect(applied).toMatchObject({
        exitCode: 0,
        stdout: expect.stringContaining('All migrations have been successfully applied') as string,
      });
      const { rows } = await db.query('SELECT count(*)::int AS orders FROM orders');
      expect(rows).toEqual([{ orders: 0 }]);
      expect(existsSync(attempts) ? readFileSync(attempts, 'utf8') : '').toBe('');
    });
  });

  it('bring a database of the first release with its data up to date', async () => {
    const database = await createTestDatabase();
    const { url, db } = database;
    try {
      await installFirstRelease(database);
      const [{ key, id: keyId }, id] = [await insertKey(db), await insertOrder(db)];
      await insertOrder(db, { status: 'cancelled' });
      await db.query("INSERT INTO api_key_usage VALUES ($1, '2026-11-21', 1, 2, 3, 4, 5, 6)", [keyId]);
      const allRows = (): Promise<unknown[]> =>
        Promise.all(
          ['api_keys', 'api_key_usage', 'orders'].map(
            async (table) => (await db.query<object>(`SELECT * FROM ${table} ORDER BY 1`)).rows,
          ),
        );
      const before = await allRows();
      // Of an installation whose owner could not create roles.
      const login = `test_login_${randomUUID().slice(0, 8)}`;
      await db.query(`CREATE ROLE ${login}`);
      await db.query(readFileSync(SERVICE_ROLE_MIGRATION, 'utf8').replaceAll('petstore_service', login));
      await deployByEngine(url);
      expect(await allRows()).toMatchObject(before);
      const merge =
        "SELECT has_function_privilege($1, 'merge_order_list_changes(bigint, bigint)', 'EXECUTE') AS granted";
      expect((await db.query(merge, [login])).rows).toEqual([{ granted: true }]);
      await db.query(`DROP OWNED BY ${login}; DROP ROLE ${login}`);
      const service = await startTestService({ database });
      try {
        const listed = (await (await listOrders(service.baseUrl, key)).json()) as { id: number }[];
        expect(listed).toHaveLength(2);
        expect((await cancelOrder(service.baseUrl, id, key)).status).toBe(204);
      } finally {
        await service.stop();
      }
    } finally {
      await database.drop();
    }
  });

  it('apply to a LATIN1 database with other defaults, in the schema public, and are shown as applied', async () => {
    await withEmptyDatabase("ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'", async ({ name, url, db }) => {
      await db.query('CREATE SCHEMA elsewhere');
      for (const setting of OTHER_DEFAULTS) {
        await db.query(`ALTER DATABASE ${name} SET ${setting}`);
      }
      await deployByEngine(url);
      expect(await prismaMigrate('status', url)).toContain('Database schema is up to date');
      const { rows } = await db.query<{ tables: string }>(`
        SELECT string_agg(concat(schemaname, '.', tablename), ' ' ORDER BY tablename) AS tables
        FROM pg_tables WHERE schemaname IN ('public', 'elsewhere')`);
      expect(rows[0]?.tables).toBe(
        'public._prisma_migrations public.api_key_usage public.api_keys public.order_list_changes public.orders',
      );
    });
  });

  it('apply again after an interrupted one was marked as rolled back, as docs/operations.md says', async () => {
    const database = await createTestDatabase();
    const name = '20261122000002_api_key_usage';
    await database.db.query('DROP TABLE api_key_usage');
    await database.db.query('UPDATE _prisma_migrations SET finished_at = NULL WHERE migration_name = $1', [name]);
    await expect(prismaMigrate('deploy', database.url)).rejects.toThrow(/found failed migrations/);
    await prismaMigrate(`resolve --rolled-back ${name}`, database.url);
    expect(await prismaMigrate('deploy', database.url)).toContain(name);
    await database.db.query('SELECT FROM api_key_usage');
    await database.drop();
  });

  it('apply as an owner who may not create roles, who then grants an existing login what the service needs', async () => {
    const database = await createTestDatabase();
    const suffix = randomUUID().slice(0, 8);
    const [owner, login, name] = [`Shop Owner ${suffix}`, `test_login_${suffix}`, `Pet Store ${suffix}`];
    const urlOf = (role: string): string => {
      const url = new URL(database.url);
      [url.username, url.password] = [encodeURIComponent(role), encodeURIComponent(PASSWORD)];
      url.pathname = `/${encodeURIComponent(name)}`;
      return url.href;
    };
    for (const role of [owner, login]) {
      await database.db.query(`CREATE ROLE "${role}" LOGIN PASSWORD '${PASSWORD}'`);
    }
    await database.db.query(`CREATE DATABASE "${name}" OWNER "${owner}" TEMPLATE template0 LOCALE 'C'`);
    await deployByEngine(urlOf(owner));
    const db = openPool({ connectionString: urlOf(owner), max: 2 });
    // As docs/operations.md says, with sed and psql.
    await db.query(readFileSync(SERVICE_ROLE_MIGRATION, 'utf8').replaceAll('petstore_service', login));
    const service = await startTestService({ database: { ...database, db, url: urlOf(login) } });
    try {
      const { key } = await insertKey(db);
      for (const id of ['9', '10', '-1']) {
        await insertOrder(db, { id });
      }
      expect((await cancelOrder(service.baseUrl, '10', key)).status).toBe(204);
      const listed = (await (await listOrders(service.baseUrl, key)).json()) as { id: number }[];
      expect(listed.map(({ id }) => id)).toEqual([-1, 9, 10]);
    } finally {
      await service.stop();
      await db.end();
      await database.db.query(`DROP DATABASE "${name}" WITH (FORCE)`);
      await database.db.query(`DROP ROLE "${owner}", ${login}`);
      await database.drop();
    }
  });
});

/** The lock that `prisma migrate` takes. */
const LOCK = 'SELECT pg_advisory_xact_lock(72707369)';
const IS_WAITING = `SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 72707369 AND NOT granted`;

describe('prisma migrate deploy', () => {
  const database = useTestDatabase();

  function migrateDeploy(environment: Readonly<Record<string, string>>): ChildProcess {
    return spawn(process.execPath, [PRISMA, 'migrate', 'deploy'], {
      cwd: ROOT,
      env: { PATH: process.env.PATH, ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 60_000,
    });
  }

  /** The schema engine of a command that waits for the lock. */
  async function engineOf(command: ChildProcess): Promise<number> {
    await waitFor(async () => (await database.db.query(IS_WAITING)).rowCount === 1, 'the engine waits for the lock');
    return Number(readFileSync(`/proc/${command.pid}/task/${command.pid}/children`, 'utf8').trim());
  }

  async function resultOf(command: ChildProcess): Promise<{ exitCode: unknown; stdout: string; stderr: string }> {
    const exited = new Promise((resolve) => command.once('close', resolve));
    const [stdout, stderr] = await Promise.all([text(command.stdout!), text(command.stderr!)]);
    return { exitCode: await exited, stdout, stderr };
  }

  it.each(['SIGKILL', 'SIGTERM'] as const)('fails when its engine is ended by %s', async (signal) => {
    const unlock = await openTransaction(database.db, LOCK);
    const command = migrateDeploy({ DATABASE_URL: database.url });
    const result = resultOf(command);
    process.kill(await engineOf(command), signal);
    expect(await result).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('error: the schema engine has ended') as string,
    });
    await unlock();
  });

  it.each<[string, (url: URL) => void]>([
    ['part of the address', () => undefined],
    [
      'given by parameters',
      (url) => {
        url.searchParams.set('user', url.username);
        url.searchParams.set('password', url.password);
        url.username = url.password = '';
      },
    ],
  ])('shows no login in the list of processes when it is %s of the URL', async (_what, change) => {
    const unlock = await openTransaction(database.db, LOCK);
    const url = new URL(database.url);
    const { username, password } = url;
    change(url);
    const command = migrateDeploy({ DATABASE_URL: url.href });
    const result = resultOf(command);
    const commandLine = readFileSync(`/proc/${await engineOf(command)}/cmdline`, 'utf8');
    expect(commandLine).toContain('schema-engine');
    expect(commandLine).not.toContain(`${username}:`);
    expect(commandLine).not.toContain('user=');
    expect(commandLine).not.toContain(password);
    await unlock();
    expect(await result).toMatchObject({ exitCode: 0 });
  });

  it('takes the URL from DATABASE_URL_FILE, as in the containers', async () => {
    const file = join(folder, 'database-url');
    writeFileSync(file, `${database.url}\n`);
    expect(await resultOf(migrateDeploy({ DATABASE_URL_FILE: file }))).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('No pending migrations to apply') as string,
    });
  });

  it('says why it fails also while NODE_OPTIONS starts an inspector', async () => {
    const environment = { DATABASE_URL: 'postgresql://nobody@127.0.0.1:1/none', NODE_OPTIONS: '--inspect=127.0.0.1:0' };
    const { exitCode, stderr } = await resultOf(migrateDeploy(environment));
    expect(exitCode).toBe(1);
    expect(stderr).toContain('Error: P1001: Cannot use the database server at 127.0.0.1:1: connect ECONNREFUSED');
  });
});

describe('a migration', () => {
  /** Prisma's own configuration with one more migration. */
  function withMigration(name: string, sql: string): string {
    const migrations = join(folder, name);
    cpSync(join(ROOT, 'prisma', 'migrations'), migrations, { recursive: true });
    mkdirSync(join(migrations, `99990101000000_${name}`));
    writeFileSync(join(migrations, `99990101000000_${name}`, 'migration.sql'), sql);
    const config = join(folder, `${name}.config.ts`);
    const own = JSON.stringify(pathToFileURL(join(ROOT, 'prisma.config.ts')).href);
    const schema = JSON.stringify(join(ROOT, 'prisma', 'schema.prisma'));
    writeFileSync(
      config,
      `import own from ${own};\nexport default { ...own, schema: ${schema}, migrations: { path: ${JSON.stringify(migrations)} } };\n`,
    );
    return config;
  }

  const deploy = (config: string, url: string): Promise<CommandResult> =>
    runProcess([process.execPath, PRISMA, 'migrate', 'deploy', '--config', config], { DATABASE_URL: url });

  it('that fails is reported with its name, the reason and the line, and changes nothing', async () => {
    const database = await createTestDatabase();
    const config = withMigration('failing', 'CREATE TABLE more ();\n\nINSERT INTO nowhere VALUES (1);\n');
    const { exitCode, stderr } = await deploy(config, database.url);
    expect(exitCode).toBe(1);
    expect(stderr).toContain('relation "nowhere" does not exist (42P01)\nLINE 3 of the script');
    expect(stderr).toContain('99990101000000_failing');
    expect((await database.db.query(`SELECT FROM pg_class WHERE relname = 'more'`)).rowCount).toBe(0);
    await database.drop();
  });

  it('commands no terminal by what the database says', async () => {
    const database = await createTestDatabase();
    const say = (level: string): string => `DO $$ BEGIN RAISE ${level} E'look \\x1b[2J'; END $$;\n`;
    const { exitCode, stdout, stderr } = await deploy(
      withMigration('talking', say('WARNING') + say('EXCEPTION')),
      database.url,
    );
    expect(exitCode).toBe(1);
    expect(stdout).toContain('Warning from the database: look \\u001b[2J');
    expect(stderr).toContain('look \\u001b[2J');
    expect(stdout + stderr).not.toContain('\u001b[2J');
    await database.drop();
  });
});

describe('where others may create in the schema', () => {
  it.each([
    ['everybody, as in PostgreSQL 14', 'PUBLIC', 'PUBLIC'],
    ['one role', 'ROLE', '"?writer_\\w+"?'],
  ])('migrations fail before their first statement, until the remedy is applied: %s', async (_who, grantee, shown) => {
    const database = await createTestDatabase();
    const role = `writer_${randomUUID().slice(0, 8)}`;
    await database.db.query(`CREATE ROLE ${role}; GRANT CREATE ON SCHEMA public TO ${grantee.replace('ROLE', role)}`);
    await database.db.query(
      `DROP TABLE api_key_usage; DELETE FROM _prisma_migrations WHERE migration_name LIKE '%usage'`,
    );
    const error: unknown = await deployByEngine(database.url).catch((failure: unknown) => failure);
    expect(String(error)).toMatch(new RegExp(`^Error: ${shown} may create in the schema public, and so run code as`));
    const [remedy = ''] = /REVOKE [^;]*;/.exec(String(error)) ?? [];
    await database.db.query(remedy);
    await deployByEngine(database.url);
    await database.db.query('SELECT FROM api_key_usage');
    await database.db.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
    await database.drop();
  });
});
