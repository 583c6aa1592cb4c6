import { once } from 'node:events';
import pg from 'pg';
import { loadConfig } from '../../src/config/config.js';
import { Pools } from '../../src/database/pools.js';
import { Metrics } from '../../src/metrics/metrics.js';
import { lockOrder } from '../helpers/lock-waits.js';
import { cancelOrder, errorOf, listOrders, outcomeOfCancel } from '../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { createServiceLogin } from '../helpers/service-login.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { startTestService } from '../helpers/test-service.js';

const SHOW = `
  SELECT concat_ws(', ', current_setting('search_path'), current_setting('row_security'), current_setting('datestyle'),
    current_setting('transaction_isolation'), current_setting('timezone'),
    current_setting('jit'), coalesce(current_setting('transaction_timeout', true), '0'),
    current_setting('idle_session_timeout')) AS settings`;
const RELIED_UPON = 'public, off, ISO, MDY, read committed, UTC, off, 0, 0';

const LISTENERS = `
  SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'petstore-listener'`;

/** What a role may set, and a statement or its result could depend on. */
const OTHER_SETTINGS: readonly Record<string, string>[] = [
  {
    search_path: 'pg_catalog',
    row_security: 'on',
    default_transaction_isolation: 'serializable',
    default_transaction_deferrable: 'on',
    timezone: "'Asia/Kathmandu'",
    datestyle: "'SQL, DMY'",
    intervalstyle: 'sql_standard',
    client_encoding: 'LATIN1',
    bytea_output: 'escape',
    extra_float_digits: '-15',
    standard_conforming_strings: 'off',
    backslash_quote: 'on',
    array_nulls: 'off',
    transform_null_equals: 'on',
    quote_all_identifiers: 'on',
    idle_in_transaction_session_timeout: '1',
    client_min_messages: 'debug5',
    enable_seqscan: 'off',
    enable_sort: 'off',
    plan_cache_mode: 'force_custom_plan',
    work_mem: "'64kB'",
  },
  {
    default_transaction_isolation: "'repeatable read'",
    timezone: "'America/St_Johns'",
    datestyle: "'German'",
    timezone_abbreviations: "'India'",
    client_encoding: 'SQL_ASCII',
    enable_indexscan: 'off',
    enable_bitmapscan: 'off',
    plan_cache_mode: 'force_generic_plan',
    jit: 'on',
    jit_above_cost: '0',
  },
];

let database: TestDatabase;
let key: string;

beforeEach(async () => {
  database = await createTestDatabase();
  ({ key } = await insertKey(database.db));
});
afterEach(() => database.drop());

/** Sets defaults of the database differently. @returns a URL with other options, as an operator may use */
async function urlWith(...settings: string[]): Promise<string> {
  const url = new URL(database.url);
  for (const setting of settings) {
    await database.db.query(`ALTER DATABASE ${url.pathname.slice(1)} SET ${setting}`);
  }
  url.searchParams.set('options', '-c timezone=America/St_Johns -c datestyle=German');
  return url.href;
}

describe('a database or a URL with other defaults', () => {
  it('gets the settings that the code relies on in every session', async () => {
    const url = await urlWith(
      'search_path = elsewhere',
      "default_transaction_isolation = 'serializable'",
      "idle_session_timeout = '1h'",
      ...((await database.db.query("SELECT FROM pg_settings WHERE name = 'transaction_timeout'")).rowCount === 1
        ? ["transaction_timeout = '1h'"]
        : []),
    );
    const pools = new Pools(loadConfig({ DATABASE_URL: url }), new Metrics());
    for (const pool of [pools.main, pools.list]) {
      expect((await pool.query(SHOW)).rows).toEqual([{ settings: RELIED_UPON }]);
    }
    await pools.onApplicationShutdown();
  });

  it('does not end the session that listens (idle session timeout)', async () => {
    // Not subject to the timeout, because it is older.
    const observer = await database.db.connect();
    const url = await urlWith("idle_session_timeout = '1s'");
    const service = await startTestService({ database, environment: { DATABASE_URL: url } });
    const idle = new pg.Client(database.url);
    // Two errors: of the server, and of the connection.
    idle.on('error', () => undefined);
    await idle.connect();
    const idleEnded = once(idle, 'error');
    const listeners = async (): Promise<unknown[]> => (await observer.query<Record<string, unknown>>(LISTENERS)).rows;
    const before = await listeners();
    expect(before).toHaveLength(1);
    // This session became idle later than the one of the service.
    expect(await idleEnded).toEqual([expect.objectContaining({ code: '57P05' })]);
    expect(await listeners()).toEqual(before);
    observer.release();
    await service.stop();
  });
});

/** Ids of the orders that {@link responsesWith} inserts and requests to cancel. */
const [PENDING, SHIPPED, CANCELLED, LOCKED, MISSING] = ['9007199254740993', '-2', '3', '4', '5'] as const;

/** Every kind of response that reads or writes the database, as a role with these settings of its own. */
async function responsesWith(settings: Readonly<Record<string, string>>, lockTimeoutMs = 50): Promise<unknown[]> {
  await database.db.query('DELETE FROM orders');
  await insertOrder(database.db, {
    ...{ id: PENDING, pet_id: '-9223372036854775808', ship_date: '2026-02-03T04:05:06.789Z' },
  });
  await insertOrder(database.db, { id: SHIPPED, status: 'shipped', ship_date: '1999-12-31T23:59:59.999Z' });
  await insertOrder(database.db, { id: CANCELLED, status: 'cancelled', ship_date: null });
  await insertOrder(database.db, { id: LOCKED });
  const login = await createServiceLogin(database);
  for (const [name, value] of Object.entries(settings)) {
    await database.db.query(`ALTER ROLE ${login.role} SET ${name} = ${value}`);
  }
  const environment = { DATABASE_URL: login.url, CANCEL_LOCK_TIMEOUT_MS: String(lockTimeoutMs) };
  const service = await startTestService({ environment, database });
  const release = await lockOrder(database.db, LOCKED);
  const contentOf = async (response: Response): Promise<unknown> => [response.status, await response.text()];
  try {
    const cancels = [];
    for (const id of [PENDING, PENDING, SHIPPED, CANCELLED, LOCKED, MISSING]) {
      cancels.push(await contentOf(await cancelOrder(service.baseUrl, id, key)));
    }
    const list = await listOrders(service.baseUrl, key);
    const etag = list.headers.get('etag') ?? '';
    const unchanged = (await listOrders(service.baseUrl, key, { 'If-None-Match': etag })).status;
    return [cancels, await contentOf(list), unchanged, await contentOf(await listOrders(service.baseUrl, `${key}x`))];
  } finally {
    await release();
    await service.stop();
    await login.drop();
  }
}

describe('a role with other defaults', () => {
  it('gets the same bytes in every response, also after a wait that is longer than its statement timeout', async () => {
    const expected = await responsesWith({});
    expect(expected).toMatchObject([
      [204, 409, 409, 409, 503, 404].map((status): unknown[] => [status, expect.anything()]),
      [200, expect.stringContaining('"petId":-9223372036854775808')],
      304,
      [401, expect.anything()],
    ]);
    for (const settings of OTHER_SETTINGS) {
      expect({ settings, responses: await responsesWith(settings) }).toEqual({ settings, responses: expected });
    }
    expect(await responsesWith({ statement_timeout: '1000' }, 1_500)).toEqual(expected);
  });

  it('serves lists and rejects cancels with 503 when the role is read-only', async () => {
    const [cancels, list] = await responsesWith({ default_transaction_read_only: 'on' });
    expect(list).toEqual([200, expect.stringContaining(`"id":${PENDING},`)]);
    expect(cancels).toEqual(Array.from({ length: 6 }, (): unknown[] => [503, expect.anything()]));
  });
});

it('row-level security that hides orders makes the list and a cancel fail with 500; the list is never shorter', async () => {
  await database.db.query(`
    ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
    CREATE POLICY some_orders ON orders USING (id < 10)`);
  await insertOrder(database.db, { id: '1' });
  await insertOrder(database.db, { id: '100' });
  const login = await createServiceLogin(database);
  const service = await startTestService({ database: { ...database, url: login.url } });
  const list = await listOrders(service.baseUrl, key);
  expect([list.status, (await errorOf(list)).code]).toEqual([500, 'internal_error']);
  expect(await outcomeOfCancel(service.baseUrl, '100', key)).toBe('500 internal_error');
  expect(await statusOf(database.db, '100')).toBe('pending');
  await service.stop();
  await login.drop();
});
