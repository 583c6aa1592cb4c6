import pg from 'pg';
import { errorOf, listOrders, outcomeOfCancel } from '../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { lockOrder } from '../helpers/lock-waits.js';
import { createServiceLogin, type ServiceLogin } from '../helpers/service-login.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';

const INSUFFICIENT_PRIVILEGE = '42501';

const database = useTestDatabase();

describe('petstore_service role', () => {
  let login: ServiceLogin;

  beforeAll(async () => {
    login = await createServiceLogin(database);
  });
  afterAll(() => login.drop());

  it('a writer without the role adds versions of the list, and may not merge them', async () => {
    const id = await insertOrder(database.db);
    const writer = await createServiceLogin(database, '');
    await database.db.query(`GRANT SELECT, UPDATE ON orders TO ${writer.role}`);
    const before = await database.db.query('SELECT FROM order_list_changes');
    await executeAs(writer, `UPDATE orders SET pet_id = pet_id + 1 WHERE id = ${id}`);
    const after = await database.db.query('SELECT FROM order_list_changes');
    expect(after.rowCount).toBe((before.rowCount ?? 0) + 1);
    const merge = 'SELECT merge_order_list_changes(0, 1)';
    await expect(executeAs(writer, merge)).rejects.toMatchObject({ code: INSUFFICIENT_PRIVILEGE });
    expect((await executeAs(login, merge)).rowCount).toBe(1);
    await writer.drop();
  });

  // `petstore doctor` compares all privileges with those that the service needs, and its tests those of this role.
  it.each([
    'INSERT INTO orders (pet_id, quantity) VALUES (1, 1)',
    'DELETE FROM orders',
    'UPDATE orders SET quantity = 1',
    "SELECT nextval('orders_id_seq')",
    // Versions of the list are written by triggers only.
    'UPDATE order_list_changes SET token = 0',
    'ALTER TABLE orders DISABLE TRIGGER orders_note_insert',
    'SELECT renew_order_list_versions()',
    'CREATE TEMP TABLE rows (id bigint); CREATE TRIGGER intruder AFTER UPDATE ON rows FOR EACH ROW EXECUTE FUNCTION note_order_list_change()',
    // Keys: the service reads what authentication needs and changes nothing but the last use.
    'SELECT name FROM api_keys',
    "UPDATE api_keys SET plan = 'business'",
    'TRUNCATE api_key_usage',
    'SELECT * FROM _prisma_migrations',
    'CREATE TABLE public.intruder ()',
    'DROP FUNCTION notify_api_key_changed() CASCADE',
  ])('may not %s', async (statement) => {
    await expect(executeAs(login, statement)).rejects.toMatchObject({ code: INSUFFICIENT_PRIVILEGE });
  });
});

/** What a role may set, and a statement or its result could depend on. The statement timeout is shorter than the one for locks. */
const OTHER_SETTINGS: Readonly<Record<string, string>> = {
  search_path: 'pg_catalog',
  row_security: 'on',
  default_transaction_isolation: 'serializable',
  timezone: "'Asia/Kathmandu'",
  datestyle: "'SQL, DMY'",
  client_encoding: 'LATIN1',
  standard_conforming_strings: 'off',
  quote_all_identifiers: 'on',
  statement_timeout: '1000',
};

describe('the login of the service', () => {
  let login: ServiceLogin;
  let service: TestService;
  let key: string;

  beforeEach(async () => {
    login = await createServiceLogin(database);
    ({ key } = await insertKey(database.db));
    await database.db.query('DELETE FROM orders');
  });
  // Also when the test has failed: a service that goes on keeps Jest running.
  afterEach(async () => {
    await service.stop();
    await login.drop();
  });

  const startService = (): Promise<TestService> =>
    startTestService({ environment: { CANCEL_LOCK_TIMEOUT_MS: '1500' }, database: { ...database, url: login.url } });

  it('has settings of its own: responses are the same', async () => {
    for (const [name, value] of Object.entries(OTHER_SETTINGS)) {
      await database.db.query(`ALTER ROLE ${login.role} SET ${name} = ${value}`);
    }
    const [pending, locked] = [
      await insertOrder(database.db, { id: '1' }),
      await insertOrder(database.db, { id: '3' }),
    ];
    await insertOrder(database.db, { id: '2', pet_id: '7', ship_date: '2026-02-03T04:05:06.789Z', status: 'shipped' });
    service = await startService();
    const list = await listOrders(service.baseUrl, key);
    expect(await list.json()).toContainEqual({
      id: 2,
      petId: 7,
      quantity: 1,
      shipDate: '2026-02-03T04:05:06.789Z',
      complete: false,
    });
    const etag = list.headers.get('etag') ?? '';
    expect((await listOrders(service.baseUrl, key, { 'If-None-Match': etag })).status).toBe(304);
    const release = await lockOrder(database.db, locked);
    const outcomes = [];
    for (const id of [pending, pending, '2', locked]) {
      outcomes.push(await outcomeOfCancel(service.baseUrl, id, key));
    }
    expect(outcomes).toEqual([
      '204',
      '409 order_already_cancelled',
      '409 order_already_shipped',
      '503 service_unavailable',
    ]);
    await release();
  });

  it('may not see all orders, by row-level security: 500, and the list is never shorter', async () => {
    await insertOrder(database.db, { id: '100' });
    await database.db.query(`
      ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
      CREATE POLICY some_orders ON orders USING (id < 10)`);
    service = await startService();
    const list = await listOrders(service.baseUrl, key);
    expect([list.status, (await errorOf(list)).code]).toEqual([500, 'internal_error']);
    expect(await outcomeOfCancel(service.baseUrl, '100', key)).toBe('500 internal_error');
    expect(await statusOf(database.db, '100')).toBe('pending');
  });
});

async function executeAs({ url }: ServiceLogin, statement: string): Promise<pg.QueryResult> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return await client.query(statement);
  } finally {
    await client.end();
  }
}
