import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { installFirstRelease } from '../helpers/first-release.js';
import { openPool } from '../helpers/open-pool.js';
import { runProcess } from '../helpers/petstore.js';
import { deployByEngine, prismaMigrate } from '../helpers/prisma-migrate.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { startTestService } from '../helpers/test-service.js';

const ROOT = join(__dirname, '..', '..');
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

  it('leave no database of db:check that could be made only in part', async () => {
    const database = await createTestDatabase();
    const { db, url } = database;
    const role = `maker_${randomUUID().slice(0, 8)}`;
    await db.query(`CREATE ROLE ${role} LOGIN CREATEDB PASSWORD '${PASSWORD}'`);
    const proxy = await TcpProxy.start(url);
    const login = Object.assign(new URL(proxy.urlFor(url)), { username: role, password: encodeURIComponent(PASSWORD) });
    const cut = proxy.before('ALLOW_CONNECTIONS true', () => {
      proxy.closeConnections();
    });
    const { exitCode, stderr } = await runProcess(['npm', 'run', '--silent', 'db:check'], { DATABASE_URL: login.href });
    await cut;
    await proxy.close();
    const { rows } = await db.query('SELECT datname FROM pg_database WHERE datdba = $1::regrole', [role]);
    expect(rows).toEqual([]);
    expect({ exitCode, stderr }).toEqual({
      exitCode: 1,
      stderr: expect.stringContaining('Cannot create the shadow database') as string,
    });
    await db.query(`DROP ROLE ${role}`);
    await database.drop();
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
