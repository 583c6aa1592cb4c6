import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { migrate } from '../../src/cli/embedded/migrate.js';
import { cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { installFirstRelease } from '../helpers/first-release.js';
import { openTransaction } from '../helpers/lock-waits.js';
import { runProcess } from '../helpers/petstore.js';
import { prismaMigrate } from '../helpers/prisma-migrate.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';
import { createTestDatabase, type TestDatabase, useTestDatabase } from '../helpers/test-database.js';
import { startTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

const ROOT = join(__dirname, '..', '..');
const PRISMA = join(ROOT, 'node_modules', 'prisma', 'build', 'index.js');
const SCHEMA = readFileSync(join(ROOT, 'prisma', 'schema.prisma'), 'utf8');

const folder = useTemporaryFolder('migrations');
/** Where commands of `onlyDatabase` append the targets of their other connections. */
const OTHER_CONNECTIONS = join(folder, 'other-connections');

/** The environment of a command that can connect to nothing but this database. */
function onlyDatabase(url: string): Record<string, string> {
  return {
    DATABASE_URL: url,
    // Without what an earlier command has downloaded.
    HOME: join(folder, 'home'),
    NODE_OPTIONS: `--import ${pathToFileURL(join(ROOT, 'test', 'helpers', 'no-network.mjs')).href}`,
    ALLOWED_PORT: new URL(url).port,
    ATTEMPTS: OTHER_CONNECTIONS,
    // npm and Prisma ask for updates of their own, which nothing waits for.
    NPM_CONFIG_UPDATE_NOTIFIER: 'false',
    CHECKPOINT_DISABLE: '1',
  };
}

/** Makes a test database an empty one. */
const dropAll = (database: TestDatabase): Promise<unknown> =>
  database.db.query('DROP SCHEMA public CASCADE; CREATE SCHEMA public');

describe('migrations', () => {
  it.each([
    [
      'produce the schema of schema.prisma, which db:check verifies without a download',
      0,
      '',
      'No difference detected',
    ],
    ['are reported by db:check when they lack a column of the schema', 2, 'extra String?', 'Added column `extra`'],
  ])('%s', async (_what, exitCode, column, found) => {
    const schema = join(folder, 'schema.prisma');
    writeFileSync(schema, SCHEMA.replace('model Order {', `model Order {\n${column}`));
    const command = ['npm', 'run', '--silent', 'db:check', '--', '--to-schema', schema];
    const result = await runProcess(command, onlyDatabase(process.env.TEST_POSTGRES_URL!));
    expect(result).toMatchObject({ exitCode, stdout: expect.stringContaining(found) as string });
    expect(existsSync(OTHER_CONNECTIONS)).toBe(false);
  });

  it('are applied by the documented command where only the database can be reached', async () => {
    const database = await createTestDatabase();
    await dropAll(database);
    expect(await runProcess(['npx', 'prisma', 'migrate', 'deploy'], onlyDatabase(database.url))).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('All migrations have been successfully applied') as string,
    });
    expect(existsSync(OTHER_CONNECTIONS)).toBe(false);
    expect((await database.db.query('SELECT FROM orders')).rowCount).toBe(0);
    await database.drop();
  });

  it('of the embedded database leave it in the state that `prisma migrate` expects, and are applied once', async () => {
    const database = await createTestDatabase();
    await dropAll(database);
    await migrate(database.url);
    const applied = async (): Promise<unknown[]> =>
      (await database.db.query<object>('SELECT * FROM _prisma_migrations')).rows;
    const first = await applied();
    expect(await prismaMigrate('deploy', database.url)).toContain('No pending migrations to apply');
    await migrate(database.url);
    expect(await applied()).toEqual(first);
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
      await prismaMigrate('deploy', url);
      expect(await allRows()).toMatchObject(before);
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

  it('fails when its engine is killed', async () => {
    const unlock = await openTransaction(database.db, LOCK);
    const command = migrateDeploy({ DATABASE_URL: database.url });
    const result = resultOf(command);
    process.kill(await engineOf(command), 'SIGKILL');
    expect(await result).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('error: the schema engine has ended') as string,
    });
    await unlock();
  });

  it('shows no login in the list of processes', async () => {
    const unlock = await openTransaction(database.db, LOCK);
    const command = migrateDeploy({ DATABASE_URL: database.url });
    const result = resultOf(command);
    const commandLine = readFileSync(`/proc/${await engineOf(command)}/cmdline`, 'utf8');
    const { username, password } = new URL(database.url);
    expect(commandLine).toContain('schema-engine');
    expect(commandLine).not.toContain(`${username}:`);
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
});

it('a migration that fails is reported with its name, the reason and the line, and changes nothing', async () => {
  const database = await createTestDatabase();
  // Prisma's own configuration with one more migration.
  const migrations = join(folder, 'failing');
  cpSync(join(ROOT, 'prisma', 'migrations'), migrations, { recursive: true });
  mkdirSync(join(migrations, '99990101000000_failing'));
  const sql = 'CREATE TABLE more ();\n\nINSERT INTO nowhere VALUES (1);\n';
  writeFileSync(join(migrations, '99990101000000_failing', 'migration.sql'), sql);
  const config = join(folder, 'failing.config.ts');
  const [own, schema, path] = [
    pathToFileURL(join(ROOT, 'prisma.config.ts')).href,
    join(ROOT, 'prisma', 'schema.prisma'),
    migrations,
  ].map((text) => JSON.stringify(text));
  writeFileSync(
    config,
    `import own from ${own};\nexport default { ...own, schema: ${schema}, migrations: { path: ${path} } };\n`,
  );
  const deploy = [process.execPath, PRISMA, 'migrate', 'deploy', '--config', config];
  const { exitCode, stderr } = await runProcess(deploy, { DATABASE_URL: database.url });
  expect(exitCode).toBe(1);
  expect(stderr).toContain('relation "nowhere" does not exist (42P01)\nLINE 3 of the script');
  expect(stderr).toContain('99990101000000_failing');
  expect((await database.db.query(`SELECT FROM pg_class WHERE relname = 'more'`)).rowCount).toBe(0);
  await database.drop();
});

it('migrations fail before their first statement where others may create in the schema, until the remedy is applied', async () => {
  const database = await createTestDatabase();
  const role = `writer_${randomUUID().slice(0, 8)}`;
  await database.db.query(`CREATE ROLE ${role}; GRANT CREATE ON SCHEMA public TO ${role}`);
  await database.db.query(
    `DROP TABLE api_key_usage; DELETE FROM _prisma_migrations WHERE migration_name LIKE '%usage'`,
  );
  const error = String(await prismaMigrate('deploy', database.url).catch((failure: unknown) => failure));
  expect(error).toMatch(new RegExp(`^Error: "?${role}"? may create in the schema public, and so run code as`, 'm'));
  const [remedy = ''] = /REVOKE [^;]*;/.exec(error) ?? [];
  await database.db.query(remedy);
  await prismaMigrate('deploy', database.url);
  await database.db.query('SELECT FROM api_key_usage');
  await database.db.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
  await database.drop();
});
