import { lockOrder } from '../helpers/lock-waits.js';
import { cancelOrder, errorOf, listOrders, outcomeOfCancel } from '../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { createServiceLogin } from '../helpers/service-login.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { startTestService } from '../helpers/test-service.js';

/** What a role may set, and a statement or its result could depend on. */
const OTHER_SETTINGS: readonly Record<string, string>[] = [
  {
    search_path: 'pg_catalog',
    row_security: 'on',
    default_transaction_isolation: 'serializable',
    default_transaction_deferrable: 'on',
    timezone: "'Asia/Kathmandu'",
    datestyle: "'SQL, DMY'",
    client_encoding: 'LATIN1',
    bytea_output: 'escape',
    standard_conforming_strings: 'off',
    transform_null_equals: 'on',
    quote_all_identifiers: 'on',
    idle_in_transaction_session_timeout: '1',
    plan_cache_mode: 'force_custom_plan',
  },
  {
    default_transaction_isolation: "'repeatable read'",
    timezone: "'America/St_Johns'",
    datestyle: "'German'",
    client_encoding: 'SQL_ASCII',
    enable_indexscan: 'off',
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

describe('the role of the service', () => {
  it('has other defaults: every response has the same bytes, also after a wait longer than its statement timeout', async () => {
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

  it('is read-only: lists are served, and cancels rejected with 503', async () => {
    const [cancels, list] = await responsesWith({ default_transaction_read_only: 'on' });
    expect(list).toEqual([200, expect.stringContaining(`"id":${PENDING},`)]);
    expect(cancels).toEqual(Array.from({ length: 6 }, (): unknown[] => [503, expect.anything()]));
  });

  it('may not see all orders, by row-level security: 500, and the list is never shorter', async () => {
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
});
