import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import pg from 'pg';
import { Pools } from '../../src/database/pools.js';
import { untilLockWaits } from '../helpers/lock-waits.js';
import { cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';

const SHOW = `
  SELECT concat_ws(', ', current_setting('search_path'), current_setting('row_security'), current_setting('datestyle'),
    current_setting('transaction_isolation'), current_setting('timezone'), current_setting('idle_session_timeout')) AS settings`;
const RELIED_UPON = 'public, off, ISO, MDY, read committed, UTC, 0';

const LISTENERS = `
  SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'petstore-listener'`;

let database: TestDatabase;
let service: TestService;
let key: string;

beforeEach(async () => {
  database = await createTestDatabase();
  ({ key } = await insertKey(database.db));
});
afterEach(async () => {
  await service.stop();
  await database.drop();
});

/** Starts a service on a database whose defaults are set differently, as an operator may do. */
async function startWith(...settings: string[]): Promise<void> {
  const name = new URL(database.url).pathname.slice(1);
  for (const setting of settings) {
    await database.db.query(`ALTER DATABASE ${name} SET ${setting}`);
  }
  service = await startTestService({ database });
}

async function outcome(id: string): Promise<string> {
  const response = await cancelOrder(service.baseUrl, id, key);
  return response.status === 204 ? '204' : `${response.status} ${(await errorOf(response)).code}`;
}

describe('a database with other defaults', () => {
  it('gets the settings that the code relies on in every session', async () => {
    await startWith(
      'search_path = elsewhere',
      "default_transaction_isolation = 'serializable'",
      "timezone = 'Asia/Kathmandu'",
      "datestyle = 'German, DMY'",
      "idle_session_timeout = '1h'",
    );
    const { main, list } = service.app.get(Pools);
    for (const pool of [main, list]) {
      expect((await pool.query(SHOW)).rows).toEqual([{ settings: RELIED_UPON }]);
    }
  });

  it('does not change the result of a cancel that waited for a shipment (repeatable read)', async () => {
    await startWith("default_transaction_isolation = 'repeatable read'");
    const [id, untouched] = [await insertOrder(database.db), await insertOrder(database.db)];
    const session = await database.db.connect();
    await session.query('BEGIN ISOLATION LEVEL READ COMMITTED');
    await session.query("UPDATE orders SET status = 'shipped' WHERE id = $1", [id]);
    const waiting = outcome(id);
    await untilLockWaits(database.db);
    await session.query('COMMIT');
    session.release();
    expect(await waiting).toBe('409 order_already_shipped');
    expect(await statusOf(database.db, untouched)).toBe('pending');
  });

  it('does not move the expiry of an API key (time zone)', async () => {
    await startWith("timezone = 'America/St_Johns'");
    const { key: valid } = await insertKey(database.db, { expires_at: new Date(service.clock.now() + 60_000) });
    const { key: expired } = await insertKey(database.db, { expires_at: new Date(service.clock.now() - 60_000) });
    expect((await listOrders(service.baseUrl, valid)).status).toBe(200);
    expect((await listOrders(service.baseUrl, expired)).status).toBe(401);
  });

  it('does not end the session that listens (idle session timeout)', async () => {
    // Not subject to the timeout, because it is older.
    const observer = await database.db.connect();
    await startWith("idle_session_timeout = '1s'");
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
  });

  it('does not hide the tables (search path)', async () => {
    await startWith('search_path = elsewhere');
    const id = await insertOrder(database.db);
    expect((await listOrders(service.baseUrl, key)).status).toBe(200);
    expect(await outcome(id)).toBe('204');
  });
});

describe('row-level security that hides orders from the service', () => {
  let role: string;

  beforeEach(async () => {
    role = `test_rls_${randomBytes(8).toString('hex')}`;
    await database.db.query(`
      CREATE ROLE ${role} LOGIN PASSWORD 'test' IN ROLE petstore_service;
      ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
      CREATE POLICY some_orders ON orders USING (id < 10)`);
  });
  afterEach(() => database.db.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`));

  it('makes the list and a cancel fail with 500; the list is never shorter', async () => {
    await insertOrder(database.db, { id: '1' });
    await insertOrder(database.db, { id: '100' });
    const url = new URL(database.url);
    url.username = role;
    url.password = 'test';
    service = await startTestService({ database: { ...database, url: url.href } });
    const list = await listOrders(service.baseUrl, key);
    expect([list.status, (await errorOf(list)).code]).toEqual([500, 'internal_error']);
    expect(await outcome('100')).toBe('500 internal_error');
    expect(await statusOf(database.db, '100')).toBe('pending');
  });
});
