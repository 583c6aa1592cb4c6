import pg from 'pg';
import { UsageWriter } from '../../src/api-keys/usage/usage-writer.js';
import { lockOrder, untilLockWaits } from '../helpers/lock-waits.js';
import { call, cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { createServiceLogin, type ServiceLogin } from '../helpers/service-login.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

const INSUFFICIENT_PRIVILEGE = '42501';

describe('petstore_service role', () => {
  let database: TestDatabase;
  let login: ServiceLogin;

  beforeAll(async () => {
    database = await createTestDatabase();
    login = await createServiceLogin(database);
  });
  afterAll(async () => {
    await login.drop();
    await database.drop();
  });

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
      const writer = service.app.get(UsageWriter);
      for (let request = 0; request < 2; request++) {
        expect((await cancelOrder(service.baseUrl, '999', key)).status).toBe(404);
        await writer.flush();
      }
      await writer.prune();
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

  describe('a role that may only read and update orders', () => {
    it('changes the version of the list, and cannot compact the versions', async () => {
      const id = await insertOrder(database.db);
      const writer = await createServiceLogin(database, '');
      await database.db.query(`GRANT SELECT, UPDATE ON orders TO ${writer.role}`);
      const client = new pg.Client(writer.url);
      await client.connect();
      try {
        const before = await database.db.query('SELECT FROM order_list_changes');
        await client.query('UPDATE orders SET pet_id = pet_id + 1 WHERE id = $1', [id]);
        const after = await database.db.query('SELECT FROM order_list_changes');
        expect(after.rowCount).toBe((before.rowCount ?? 0) + 1);
        await expect(client.query('SELECT compact_order_list_changes(0)')).rejects.toMatchObject({
          code: INSUFFICIENT_PRIVILEGE,
        });
      } finally {
        await client.end();
        await writer.drop();
      }
    });
  });

  it('may compact the versions of the list', async () => {
    const client = new pg.Client(login.url);
    await client.connect();
    try {
      expect((await client.query('SELECT compact_order_list_changes(-1)')).rowCount).toBe(1);
    } finally {
      await client.end();
    }
  });

  describe('denies with insufficient_privilege', () => {
    let client: pg.Client;
    let before: unknown[];

    beforeAll(async () => {
      await insertKey(database.db);
      await insertOrder(database.db);
      before = await contents();
      client = new pg.Client(login.url);
      await client.connect();
    });
    afterAll(async () => {
      await client.end();
    });

    it.each([
      // Orders: the service only cancels.
      'INSERT INTO orders (pet_id, quantity) VALUES (1, 1)',
      'DELETE FROM orders',
      'TRUNCATE orders',
      'UPDATE orders SET id = id + 1000000',
      'UPDATE orders SET pet_id = 1',
      'UPDATE orders SET quantity = 1',
      'UPDATE orders SET ship_date = now()',
      'UPDATE orders SET complete = true',
      'UPDATE orders SET created_at = now()',
      "SELECT nextval('orders_id_seq')",
      // Versions of the list are written by triggers only.
      'INSERT INTO order_list_changes (block, token) VALUES (0, 0)',
      'UPDATE order_list_changes SET token = 0',
      'DELETE FROM order_list_changes',
      'ALTER TABLE orders DISABLE TRIGGER orders_note_insert',
      'SELECT renew_order_list_versions()',
      'CREATE TEMP TABLE rows (id bigint); CREATE TRIGGER intruder AFTER UPDATE ON rows FOR EACH ROW EXECUTE FUNCTION note_order_list_change()',
      // Keys: the service reads what authentication needs and changes nothing but the last use.
      'SELECT name FROM api_keys',
      'SELECT key_prefix FROM api_keys',
      'SELECT * FROM api_keys',
      "INSERT INTO api_keys (name, key_prefix, key_hash, plan) VALUES ('x', 'x', sha256('x'), 'pro')",
      'DELETE FROM api_keys',
      'TRUNCATE api_keys',
      "UPDATE api_keys SET plan = 'business'",
      'UPDATE api_keys SET requests_per_minute = 1000000, requests_per_day = 1000000',
      'UPDATE api_keys SET revoked_at = NULL',
      'UPDATE api_keys SET expires_at = NULL',
      "UPDATE api_keys SET key_hash = sha256('x')",
      "UPDATE api_keys SET name = 'x'",
      // Usage: the service adds to it and removes old days.
      'UPDATE api_key_usage SET day = day - 1',
      'UPDATE api_key_usage SET key_id = gen_random_uuid()',
      'TRUNCATE api_key_usage',
      // Schema: only migrations change it.
      'SELECT * FROM _prisma_migrations',
      'CREATE TABLE public.intruder ()',
      'CREATE FUNCTION public.intruder() RETURNS integer LANGUAGE sql RETURN 1',
      'CREATE SCHEMA intruder',
      'ALTER TABLE orders ADD COLUMN intruder integer',
      'ALTER TABLE api_keys DISABLE TRIGGER ALL',
      'CREATE INDEX ON orders (pet_id)',
      'DROP TABLE orders',
      'DROP FUNCTION notify_api_key_changed() CASCADE',
      'GRANT ALL ON api_keys TO PUBLIC',
      // Roles, files and settings of the server.
      'CREATE ROLE intruder',
      'SET ROLE pg_write_server_files',
      'SELECT rolpassword FROM pg_authid',
      "COPY orders (id) TO '/tmp/intruder'",
      "COPY orders (id) TO PROGRAM 'cat'",
      "SELECT pg_read_file('postgresql.conf')",
      'ALTER SYSTEM SET log_statement = $$all$$',
    ])('%s', async (statement) => {
      await expect(client.query(statement)).rejects.toMatchObject({ code: INSUFFICIENT_PRIVILEGE });
    });

    it('grants no privilege to others', async () => {
      // PostgreSQL only warns that nothing was granted.
      await client.query('GRANT ALL ON orders TO PUBLIC');
      const { rows } = await database.db.query(
        "SELECT FROM information_schema.table_privileges WHERE grantee = 'PUBLIC' AND table_schema = 'public'",
      );
      expect(rows).toEqual([]);
    });

    it('leaves orders and keys unchanged after all attempts', async () => {
      expect(await contents()).toEqual(before);
    });

    async function contents(): Promise<unknown[]> {
      const { rows } = await database.db.query<Record<string, unknown>>(
        `SELECT (SELECT json_agg(orders ORDER BY id) FROM orders)::text AS orders,
                (SELECT json_agg(api_keys ORDER BY id) FROM api_keys)::text AS keys`,
      );
      return rows;
    }
  });
});
