import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { PostgresServer } from '../../src/cli/embedded/postgres-server.js';
import { cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { describeIf } from '../helpers/describe-if.js';
import { openPool } from '../helpers/open-pool.js';
import { prismaMigrate } from '../helpers/prisma-migrate.js';
import { createServiceLogin } from '../helpers/service-login.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { startTestService } from '../helpers/test-service.js';

/** Ids of orders that {@link insertOrders} inserts and {@link responsesOf} requests to cancel. */
const [PENDING, SHIPPED, CANCELLED, LOCKED, MISSING] = ['9007199254740993', '-2', '3', '4', '5'] as const;

async function insertOrders(db: pg.Pool): Promise<void> {
  await insertOrder(db, { id: PENDING, pet_id: '-9223372036854775808', ship_date: '2026-02-03T04:05:06.789Z' });
  await insertOrder(db, { id: SHIPPED, status: 'shipped', ship_date: '1999-12-31T23:59:59.999Z' });
  await insertOrder(db, { id: CANCELLED, status: 'cancelled', ship_date: null });
  await insertOrder(db, { id: LOCKED });
}

/** Every kind of response that reads or writes the database, without what differs from run to run. */
async function responsesOf(url: string, database: TestDatabase, key: string, lockTimeoutMs = 50): Promise<unknown[]> {
  const environment = { DATABASE_URL: url, CANCEL_LOCK_TIMEOUT_MS: String(lockTimeoutMs) };
  const service = await startTestService({ environment, database });
  const locker = await database.db.connect();
  const contentOf = async (response: Response): Promise<unknown> => [response.status, await response.text()];
  try {
    await locker.query('BEGIN');
    await locker.query('SELECT FROM orders WHERE id = $1 FOR UPDATE', [LOCKED]);
    const before = await contentOf(await listOrders(service.baseUrl, key));
    const cancels = [];
    for (const id of [PENDING, PENDING, SHIPPED, CANCELLED, LOCKED, MISSING]) {
      cancels.push(await contentOf(await cancelOrder(service.baseUrl, id, key)));
    }
    await locker.query('ROLLBACK');
    const list = await listOrders(service.baseUrl, key);
    const etag = list.headers.get('etag') ?? '';
    const after = await contentOf(list);
    const unchanged = (await listOrders(service.baseUrl, key, { 'If-None-Match': etag })).status;
    const unauthorized = await contentOf(await listOrders(service.baseUrl, `${key}x`));
    return [before, cancels, after, unchanged, unauthorized];
  } finally {
    locker.release(true);
    await service.stop();
  }
}

describe('a role with other defaults', () => {
  let database: TestDatabase;
  let key: string;
  let expected: unknown[];
  beforeAll(async () => {
    database = await createTestDatabase();
    ({ key } = await insertKey(database.db));
    expected = await responsesWith({});
  });
  afterAll(() => database.drop());

  async function responsesWith(settings: Readonly<Record<string, string>>, lockTimeoutMs?: number): Promise<unknown[]> {
    await database.db.query('DELETE FROM orders');
    await insertOrders(database.db);
    const login = await createServiceLogin(database);
    try {
      for (const [name, value] of Object.entries(settings)) {
        await database.db.query(`ALTER ROLE ${login.role} SET ${name} = ${value}`);
      }
      return await responsesOf(login.url, database, key, lockTimeoutMs);
    } finally {
      await login.drop();
    }
  }

  it('responds with every status', () => {
    expect(expected).toMatchObject([
      [200, expect.stringContaining('"petId":-9223372036854775808')],
      [204, 409, 409, 409, 503, 404].map((status): unknown[] => [status, expect.anything()]),
      [200, expect.anything()],
      304,
      [401, expect.anything()],
    ]);
  });

  it.each<Record<string, string>>([
    { search_path: 'pg_catalog' },
    { default_transaction_isolation: 'serializable', default_transaction_deferrable: 'on' },
    { default_transaction_isolation: "'repeatable read'" },
    { row_security: 'on' },
    { timezone: "'Asia/Kathmandu'", datestyle: "'SQL, DMY'", intervalstyle: 'sql_standard' },
    { datestyle: "'German'", timezone_abbreviations: "'India'" },
    { client_encoding: 'LATIN1' },
    { client_encoding: 'SQL_ASCII' },
    { bytea_output: 'escape', extra_float_digits: '-15' },
    { standard_conforming_strings: 'off', backslash_quote: 'on' },
    { array_nulls: 'off', transform_null_equals: 'on', quote_all_identifiers: 'on' },
    { idle_in_transaction_session_timeout: '1' },
    { client_min_messages: 'debug5' },
    { enable_seqscan: 'off', enable_sort: 'off', plan_cache_mode: 'force_custom_plan', work_mem: "'64kB'" },
    {
      enable_indexscan: 'off',
      enable_bitmapscan: 'off',
      plan_cache_mode: 'force_generic_plan',
      jit: 'on',
      jit_above_cost: '0',
    },
  ])('responds with the same bytes: %j', async (settings) => {
    expect(await responsesWith(settings)).toEqual(expected);
  });

  it('responds with the same bytes after a wait for a lock that is longer than its statement timeout', async () => {
    expect(await responsesWith({ statement_timeout: '1000' }, 1_500)).toEqual(expected);
  });

  it('serves lists and rejects cancels with 503 when the role is read-only', async () => {
    const [before, cancels, after, ...rest] = await responsesWith({ default_transaction_read_only: 'on' });
    expect([before, ...rest]).toEqual([expected[0], ...expected.slice(3)]);
    expect(after).toEqual(before);
    expect(cancels).toEqual(Array.from({ length: 6 }, (): unknown[] => [503, expect.anything()]));
  });
});

const DEBIAN = '/usr/lib/postgresql';
const [version = ''] = existsSync(DEBIAN) ? readdirSync(DEBIAN) : [];
const hasTranslations = [
  '/usr/share/i18n/locales/de_DE',
  `/usr/share/locale/de/LC_MESSAGES/postgres-${version}.mo`,
].every((file) => existsSync(file));
const describeGerman = describeIf(
  hasTranslations,
  'a PostgreSQL with translations, which the builds from npm do not have (Debian: apt install postgresql locales)',
);

describeGerman('a server with German messages', () => {
  let folder: string;
  let server: PostgresServer;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'petstore-german-'));
    chmodSync(folder, 0o755);
    execFileSync('localedef', ['-i', 'de_DE', '-f', 'UTF-8', '--no-archive', join(folder, 'de_DE.UTF-8')]);
    const settings = { fsync: 'off' };
    server = await PostgresServer.start({ folder: join(folder, 'server'), programs: debianPrograms(folder), settings });
  });
  afterAll(async () => {
    await server.stop();
    rmSync(folder, { recursive: true });
  });

  it('responds with the same bytes', async () => {
    const results: { error: string; responses: unknown[] }[] = [];
    for (const [name, language] of [
      ['english', 'C'],
      ['german', 'de_DE.UTF-8'],
    ] as const) {
      const db = await createDatabase(name, language);
      try {
        await insertOrders(db);
        const { key } = await insertKey(db);
        const error = await db.query('SELECT 1/0').then(() => '', String);
        const database = { url: server.url(name), db, drop: () => db.end() };
        results.push({ error, responses: await responsesOf(database.url, database, key) });
      } finally {
        await db.end();
      }
    }
    expect(results.map(({ error }) => error)).toEqual(['error: division by zero', 'error: Division durch Null']);
    expect(results[1]?.responses).toEqual(results[0]?.responses);
  });

  async function createDatabase(name: string, language: string): Promise<pg.Pool> {
    const superuser = new pg.Client(server.url('postgres'));
    await superuser.connect();
    await superuser.query(`CREATE DATABASE ${name}`);
    await superuser.query(`ALTER DATABASE ${name} SET lc_messages = '${language}'`);
    await superuser.end();
    await prismaMigrate('deploy', server.url(name));
    return openPool({ connectionString: server.url(name) });
  }
});

/** Debian's programs in the form of the npm package. They find their other files relative to themselves. */
function debianPrograms(folder: string): string {
  const native = join(folder, DEBIAN, version);
  mkdirSync(native, { recursive: true });
  cpSync(join(DEBIAN, version, 'bin'), join(native, 'bin'), { recursive: true });
  symlinkSync(join(DEBIAN, version, 'lib'), join(native, 'lib'));
  symlinkSync('/usr/share', join(folder, 'usr', 'share'));
  writeFileSync(join(native, 'pg-symlinks.json'), '[]');
  // The server finds the locale of this folder.
  const pgCtl = join(native, 'bin', 'pg_ctl');
  renameSync(pgCtl, `${pgCtl}.original`);
  writeFileSync(pgCtl, `#!/bin/sh\nLOCPATH='${folder}' exec '${pgCtl}.original' "$@"\n`);
  return native;
}
