import { generateKey } from '../../src/api-keys/api-keys.admin.js';
import { hashKey } from '../../src/api-keys/key-format.js';
import { DatabaseListener } from '../../src/database/database-listener.js';
import { API_KEY_CHANGED_CHANNEL } from '../../src/database/notification-channels.js';
import { call } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { petstore } from '../helpers/petstore.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

/** A service behind a proxy that can interrupt notifications alone. Its clock stands still: what it knows does not expire. */
let database: TestDatabase;
let proxy: TcpProxy;
let service: TestService;
beforeEach(async () => {
  database = await createTestDatabase();
  proxy = await TcpProxy.start(database.url, 'petstore-listener');
  const environment = { DATABASE_URL: proxy.urlFor(database.url), API_KEY_CACHE_SECONDS: '3600' };
  service = await startTestService({ database, environment });
});
afterEach(async () => {
  await service.stop();
  await proxy.close();
  await database.drop();
});

async function statusOf(key: string): Promise<number> {
  return (await call(service.baseUrl, 'HEAD', '/store/orders', key)).status;
}

const revoke = (id: string): Promise<unknown> =>
  database.db.query('UPDATE api_keys SET revoked_at = now() WHERE id = $1', [id]);

/** Inserts a key whose notification has arrived: a later one would have the service look the key up again. */
async function insertNotifiedKey(): Promise<{ id: string; key: string }> {
  const listener = service.app.get(DatabaseListener);
  const notified = new Set<string>();
  const note = (keyHash: string): void => void notified.add(keyHash);
  listener.on(API_KEY_CHANGED_CHANNEL, note);
  const inserted = await insertKey(database.db);
  await waitFor(() => notified.has(hashKey(inserted.key)), 'the service is notified of the key');
  listener.off(API_KEY_CHANGED_CHANNEL, note);
  return inserted;
}

/** Resolves when the service has connected for notifications once more. */
function reconnected(): Promise<void> {
  const listener = service.app.get(DatabaseListener);
  const { onConnected } = listener;
  return new Promise((resolve) => {
    listener.onConnected = () => {
      onConnected();
      resolve();
    };
  });
}

describe.each<[state: string, interrupt: () => void]>([
  ['connected', () => undefined],
  ['silently dead', () => proxy.dropSilently()],
  ['lost', () => proxy.rejectConnections()],
])('while the connection for notifications is %s', (_state, interrupt) => {
  it('a key works from the moment its command has ended, also when it was tried before', async () => {
    const { key: known } = await insertKey(database.db);
    expect(await statusOf(known)).toBe(200);
    interrupt();
    const { stdout } = await petstore(['keys', 'issue', '--name', 'n', '--plan', 'pro', '--json'], {
      DATABASE_URL: database.url,
    });
    const { key } = JSON.parse(stdout) as { key: string };
    expect([await statusOf(key), await statusOf(known)]).toEqual([200, 200]);

    const tried = generateKey();
    expect(await statusOf(tried)).toBe(401);
    const insert =
      "INSERT INTO api_keys (name, key_prefix, key_hash, plan) VALUES ('n', 'p', decode($1, 'hex'), 'pro')";
    await database.db.query(insert, [hashKey(tried)]);
    expect(await statusOf(tried)).toBe(200);
  });
});

it('a key that is revoked after the connection has died silently is rejected when the heartbeat has noticed it', async () => {
  const [{ id, key }, { key: other }] = [await insertNotifiedKey(), await insertNotifiedKey()];
  expect([await statusOf(key), await statusOf(other)]).toEqual([200, 200]);
  const again = reconnected();
  proxy.dropSilently();
  await revoke(id);
  expect(await statusOf(key)).toBe(200);
  await again;
  expect([await statusOf(key), await statusOf(other)]).toEqual([401, 200]);
});

it('a key that is revoked while the connection is known to be lost is rejected at once', async () => {
  const { id, key } = await insertKey(database.db);
  expect(await statusOf(key)).toBe(200);
  proxy.rejectConnections();
  const listener = service.app.get(DatabaseListener);
  await waitFor(() => !listener.isListening, 'the loss is noticed');
  expect(await statusOf(key)).toBe(200);
  await revoke(id);
  expect(await statusOf(key)).toBe(401);
});

it('a key that changed while the connection was lost is known with its changes when it is restored', async () => {
  const { id, key } = await insertKey(database.db, { plan: 'free' });
  expect(await statusOf(key)).toBe(200);
  proxy.rejectConnections();
  await database.db.query("UPDATE api_keys SET plan = 'pro' WHERE id = $1", [id]);
  const again = reconnected();
  proxy.restore();
  await again;
  const { headers } = await call(service.baseUrl, 'HEAD', '/store/orders', key);
  expect(headers.get('x-ratelimit-limit')).toBe('300');
});

it.each([
  [
    'while the triggers were off',
    (insert: string) =>
      `ALTER TABLE api_keys DISABLE TRIGGER USER; ${insert}; ALTER TABLE api_keys ENABLE ALWAYS TRIGGER api_keys_notify_changed`,
  ],
  [
    'into a child table',
    (insert: string) => `CREATE TABLE child () INHERITS (api_keys); ${insert.replace('api_keys', 'child')}`,
  ],
  ['after the trigger was dropped', (insert: string) => `DROP TRIGGER api_keys_notify_changed ON api_keys; ${insert}`],
])('a key that was inserted %s is valid at once', async (_when, around) => {
  const key = generateKey();
  expect(await statusOf(key)).toBe(401);
  await database.db.query(
    around(
      `INSERT INTO api_keys (name, key_prefix, key_hash, plan) VALUES ('n', 'p', decode('${hashKey(key)}', 'hex'), 'pro')`,
    ),
  );
  expect(await statusOf(key)).toBe(200);
});
