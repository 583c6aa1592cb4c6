import pg from 'pg';
import { UsageRecorder } from '../../src/usage/usage-recorder.js';
import { lockOrder, untilLockWaits } from '../helpers/lock-waits.js';
import { call, cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { createServiceLogin, type ServiceLogin } from '../helpers/service-login.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

const INSUFFICIENT_PRIVILEGE = '42501';

const database = useTestDatabase();

describe('petstore_service role', () => {
  let login: ServiceLogin;

  beforeAll(async () => {
    login = await createServiceLogin(database);
  });
  afterAll(() => login.drop());

  describe('a service that connects with it', () => {
    let service: TestService;

    beforeAll(async () => {
      service = await startTestService({ database: { ...database, url: login.url } });
    });
    afterAll(async () => {
      await service.stop();
    });

    it('is ready, lists the orders, and returns 304 for an unchanged list', async () => {
      expect((await fetch(`${service.baseUrl}/health/ready`)).status).toBe(200);
      const { key } = await insertKey(database.db);
      const id = await insertOrder(database.db, { pet_id: '77' });
      const response = await listOrders(service.baseUrl, key);
      expect(await response.json()).toContainEqual(expect.objectContaining({ id: Number(id), petId: 77 }));
      const etag = response.headers.get('etag') ?? '';
      expect((await listOrders(service.baseUrl, key, { 'If-None-Match': etag })).status).toBe(304);
    });

    it('cancels a pending order that was locked, and no other', async () => {
      const { key } = await insertKey(database.db);
      const [pending, shipped] = [
        await insertOrder(database.db),
        await insertOrder(database.db, { status: 'shipped' }),
      ];
      const release = await lockOrder(database.db, pending);
      const cancelled = cancelOrder(service.baseUrl, pending, key);
      await untilLockWaits(database.db);
      await release();
      expect((await cancelled).status).toBe(204);
      expect((await errorOf(await cancelOrder(service.baseUrl, shipped, key))).code).toBe('order_already_shipped');
      expect([await statusOf(database.db, pending), await statusOf(database.db, shipped)]).toEqual([
        'cancelled',
        'shipped',
      ]);
    });

    it('records the last use and the usage of a key, and removes old days', async () => {
      const { id, key } = await insertKey(database.db);
      const { id: unused } = await insertKey(database.db);
      await database.db.query("INSERT INTO api_key_usage VALUES ($1, '2020-01-01', 1, 0, 0, 0, 0, 0)", [id]);
      const writer = service.app.get(UsageRecorder);
      for (let request = 0; request < 2; request++) {
        expect((await cancelOrder(service.baseUrl, '999', key)).status).toBe(404);
        await writer.flush();
      }
      const { rows } = await database.db.query(
        `SELECT id, admitted, last_used_at IS NOT NULL AS used
         FROM api_keys LEFT JOIN api_key_usage ON key_id = id WHERE id IN ($1, $2) ORDER BY used DESC`,
        [id, unused],
      );
      expect(rows).toEqual([
        { id, admitted: '2', used: true },
        { id: unused, admitted: null, used: false },
      ]);
    });

    it('learns of a revoked key', async () => {
      const { id, key } = await insertKey(database.db);
      expect((await call(service.baseUrl, 'GET', '/nothing-here', key)).status).toBe(404);
      await database.db.query('UPDATE api_keys SET revoked_at = now() WHERE id = $1', [id]);
      await waitFor(
        async () => (await call(service.baseUrl, 'GET', '/nothing-here', key)).status === 401,
        'the revoked key is rejected',
      );
    });
  });

  it('is needed to merge the versions of the list, and not to change them', async () => {
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

async function executeAs({ url }: ServiceLogin, statement: string): Promise<pg.QueryResult> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return await client.query(statement);
  } finally {
    await client.end();
  }
}
