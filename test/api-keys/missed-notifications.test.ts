import { ApiKeysRepository } from '../../src/api-keys/api-keys.repository.js';
import { generateKey } from '../../src/api-keys/api-keys.admin.js';
import { hashKey } from '../../src/api-keys/key-format.js';
import { IssuedDigests } from '../../src/api-keys/issued-digests.js';
import { call } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

/** A service behind a proxy that can interrupt notifications alone. */
let database: TestDatabase;
let proxy: TcpProxy;
let service: TestService;
let issued: IssuedDigests;
beforeEach(async () => {
  database = await createTestDatabase();
  proxy = await TcpProxy.start(database.url, 'petstore-listener');
});
afterEach(async () => {
  await service.stop();
  await proxy.close();
  await database.drop();
});

async function start(): Promise<void> {
  const environment = { DATABASE_URL: proxy.urlFor(database.url), API_KEY_CACHE_SECONDS: '3600' };
  service = await startTestService({ database, environment });
  issued = service.app.get(IssuedDigests);
}

/** An INSERT that does not wait until services know the key. */
function insertOf(key: string, table = 'api_keys'): string {
  return `INSERT INTO ${table} (name, key_prefix, key_hash, plan) VALUES ('n', 'p', decode('${hashKey(key)}', 'hex'), 'pro');`;
}

async function statusOf(key: string): Promise<number> {
  return (await call(service.baseUrl, 'HEAD', '/store/orders', key)).status;
}

async function expectValidSoon(key: string): Promise<void> {
  await waitFor(async () => (await statusOf(key)) === 200, 'the key is valid', { withinMs: 60_000 });
}

it('a service that starts knows every key before it accepts a request, also those of later pages', async () => {
  await database.db.query(
    `INSERT INTO api_keys (name, key_prefix, key_hash, plan)
     SELECT 'n', 'p', CASE WHEN number < 2 THEN decode(repeat(CASE number WHEN 0 THEN '00' ELSE 'ff' END, 32), 'hex')
                           ELSE sha256(number::text::bytea) END, 'pro' FROM generate_series(0, 25000) AS number`,
  );
  await start();
  const { rows } = await database.db.query<{ digest: string }>(
    "SELECT encode(key_hash, 'hex') AS digest FROM api_keys",
  );
  expect(issued.isComplete).toBe(true);
  expect(rows).toHaveLength(25_001);
  expect(rows.filter(({ digest }) => !issued.has(digest))).toEqual([]);
});

it('a service that many keys have been announced to loads all keys again, and rejects none meanwhile', async () => {
  await start();
  const { key } = await insertKey(database.db);
  await database.db.query(
    `INSERT INTO api_keys (name, key_prefix, key_hash, plan)
     SELECT 'n', 'p', sha256(number::text::bytea), 'pro' FROM generate_series(0, 10000) AS number`,
  );
  await waitFor(async () => {
    expect([await statusOf(key), issued.isComplete]).toEqual([200, true]);
    return issued.announcedCount === 0;
  }, 'they are loaded');
  expect(issued.has(hashKey(key))).toBe(true);
});

it('while the listening connection is lost, unknown keys are looked up, and afterwards no longer', async () => {
  await start();
  const { key: known } = await insertKey(database.db);
  proxy.rejectConnections();
  await waitFor(() => !issued.isComplete, 'the loss is noticed');
  const missed = generateKey();
  await database.db.query(insertOf(missed));
  const inBetween = generateKey();
  expect(await statusOf(inBetween)).toBe(401);
  expect([await statusOf(missed), await statusOf(known)]).toEqual([200, 200]);

  await database.db.query(insertOf(inBetween));
  proxy.restore();
  await waitFor(() => issued.isComplete, 'the keys are loaded');
  expect(await statusOf(inBetween)).toBe(200);
  const lookUps = jest.spyOn(service.app.get(ApiKeysRepository), 'findByHash');
  expect(await statusOf(generateKey())).toBe(401);
  expect(lookUps).not.toHaveBeenCalled();
});

describe('a key that no notification announces', () => {
  beforeEach(start);

  it.each([
    [
      'was loaded while the triggers were off',
      (insert: string) =>
        `ALTER TABLE api_keys DISABLE TRIGGER USER; ${insert} ALTER TABLE api_keys ENABLE ALWAYS TRIGGER api_keys_notify_changed`,
      'api_keys',
    ],
    [
      'is in a table that has taken the place of another',
      (insert: string) =>
        `CREATE TABLE api_keys_new (LIKE api_keys INCLUDING ALL); ALTER TABLE api_keys RENAME TO api_keys_old; ALTER TABLE api_keys_new RENAME TO api_keys; ${insert}`,
      'api_keys',
    ],
    ['is in a child table', (insert: string) => `CREATE TABLE child () INHERITS (api_keys); ${insert}`, 'child'],
    [
      'was inserted after the trigger was dropped',
      (insert: string) => `DROP TRIGGER api_keys_notify_changed ON api_keys; ${insert}`,
      'api_keys',
    ],
  ])('and that %s, is valid all the same, and so is the next one', async (_name, change, table) => {
    const [key, next] = [generateKey(), generateKey()];
    const insert = (each: string): string => insertOf(each).replace('api_keys', table);
    await database.db.query(change(insert(key)));
    await expectValidSoon(key);
    await database.db.query(insert(next));
    await expectValidSoon(next);
  });
});
