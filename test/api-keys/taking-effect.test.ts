import { generateKey } from '../../src/api-keys/api-keys.admin.js';
import { hashKey } from '../../src/api-keys/key-format.js';
import { DatabaseListener } from '../../src/database/database-listener.js';
import { API_KEY_CHANGED_CHANNEL } from '../../src/database/notification-channels.js';
import { call } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { petstore } from '../helpers/petstore.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { type TestDatabase, createTestDatabase } from '../helpers/test-database.js';
import { type TestService, startTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

describe('changes of keys', () => {
  /**
   * Two services on one database. Their clocks advance by less than an hour, so cache entries never expire and only a
   * notification can invalidate them.
   */
  let services: readonly [TestService, TestService];
  beforeAll(async () => {
    const environment = { API_KEY_CACHE_SECONDS: '3600' };
    const first = await startTestService({ environment });
    services = [first, await startTestService({ environment, database: first })];
  });
  afterAll(async () => {
    await services[1].stop();
    await services[0].stop();
  });

  const query = (sql: string, parameters: unknown[]): Promise<unknown> => services[0].db.query(sql, parameters);

  async function statuses(key: string): Promise<number[]> {
    const responses = services.map(({ baseUrl }) => call(baseUrl, 'HEAD', '/store/orders', key));
    return (await Promise.all(responses)).map(({ status }) => status);
  }

  async function policies(key: string): Promise<(string | null)[]> {
    const responses = services.map(({ baseUrl }) => call(baseUrl, 'HEAD', '/store/orders', key));
    return (await Promise.all(responses)).map(({ headers }) => headers.get('ratelimit-policy'));
  }

  /** Waits until both services return this status, and checks that another key is not affected. */
  async function expectEverywhere(key: string, status: number): Promise<void> {
    await waitFor(async () => (await statuses(key)).every((each) => each === status), `both services return ${status}`);
    expect(await statuses(bystander)).toEqual([200, 200]);
  }

  let bystander: string;
  beforeEach(async () => {
    // Requests with a rejected key count against the address, which may send few of them in a minute.
    services.forEach(({ clock }) => clock.advance(60_000));
    ({ key: bystander } = await insertKey(services[0].db));
    // Cached by both from now on.
    await statuses(bystander);
  });

  describe('every process applies when it is notified, while its cache entries are fresh,', () => {
    it.each([
      ['the revocation of a key', 'UPDATE api_keys SET revoked_at = now() WHERE id = $id'],
      [
        'a revocation by a session that has switched triggers off',
        `BEGIN; SET LOCAL session_replication_role = 'replica';
       UPDATE api_keys SET revoked_at = now() WHERE id = $id; COMMIT`,
      ],
      ['the deletion of a key', 'DELETE FROM api_keys WHERE id = $id'],
    ])('%s', async (_what, statement) => {
      const { id, key } = await insertKey(services[0].db);
      expect(await statuses(key)).toEqual([200, 200]);
      await services[0].db.query(statement.replace('$id', `'${id}'`));
      await expectEverywhere(key, 401);
    });

    it('the issue of a key that was rejected before', async () => {
      const key = generateKey();
      expect(await statuses(key)).toEqual([401, 401]);
      await query(
        "INSERT INTO api_keys (name, key_prefix, key_hash, plan) VALUES ('n', 'p', decode($1, 'hex'), 'pro')",
        [hashKey(key)],
      );
      await expectEverywhere(key, 200);
    });

    it('a new and a removed expiry', async () => {
      const { id, key } = await insertKey(services[0].db);
      expect(await statuses(key)).toEqual([200, 200]);
      await query('UPDATE api_keys SET expires_at = $2 WHERE id = $1', [id, new Date(services[0].clock.now())]);
      await expectEverywhere(key, 401);
      await query('UPDATE api_keys SET expires_at = NULL WHERE id = $1', [id]);
      await expectEverywhere(key, 200);
    });

    it('another plan and other quotas, without resetting the counts', async () => {
      const { id, key } = await insertKey(services[0].db, { plan: 'free' });
      expect(await statuses(key)).toEqual([200, 200]);
      for (const [change, policy] of [
        ["plan = 'pro'", '"minute";q=300;w=60, "day";q=10000;w=86400'],
        [
          "plan = 'enterprise', requests_per_minute = 200, requests_per_day = 800",
          '"minute";q=200;w=60, "day";q=800;w=86400',
        ],
        ['requests_per_minute = 70', '"minute";q=70;w=60, "day";q=800;w=86400'],
        ['requests_per_day = 90', '"minute";q=70;w=60, "day";q=90;w=86400'],
      ]) {
        await query(`UPDATE api_keys SET ${change} WHERE id = $1`, [id]);
        await waitFor(async () => (await policies(key)).every((each) => each === policy), `the policy is ${policy}`);
      }
      const { headers } = await call(services[0].baseUrl, 'HEAD', '/store/orders', key);
      expect(Number(headers.get('x-ratelimit-remaining'))).toBeLessThan(69);
      expect((await policies(bystander)).join()).toContain('q=1000000;');
    });

    it('another digest of a key: the old key is rejected and the new one admitted', async () => {
      const { id, key } = await insertKey(services[0].db);
      const next = generateKey();
      expect([await statuses(key), await statuses(next)]).toEqual([
        [200, 200],
        [401, 401],
      ]);
      await query("UPDATE api_keys SET key_hash = decode($2, 'hex') WHERE id = $1", [id, hashKey(next)]);
      await expectEverywhere(key, 401);
      await expectEverywhere(next, 200);
    });
  });

  it('every process rejects a revoked key within a second after the command has ended', async () => {
    const delaysMs: number[] = [];
    for (let count = 0; count < 3; count++) {
      const { id, key } = await insertKey(services[0].db);
      expect(await statuses(key)).toEqual([200, 200]);
      const revoked = await petstore(['keys', 'revoke', id], { DATABASE_URL: services[0].url });
      const endMs = performance.now();
      expect(revoked).toMatchObject({ exitCode: 0, stderr: '' });
      await waitFor(async () => (await statuses(key)).every((status) => status === 401), 'both services return 401');
      delaysMs.push(performance.now() - endMs);
    }
    // A busy machine delays single requests.
    expect(Math.min(...delaysMs)).toBeLessThanOrEqual(1_000);
  });

  it('a process whose listening connection was lost looks up every key again after it has reconnected', async () => {
    const { id, key } = await insertKey(services[0].db);
    expect(await statuses(key)).toEqual([200, 200]);
    // The change sends no notification, as if it happened while the listeners were disconnected.
    await services[0].db.query(`
    DO $$ BEGIN
      ALTER TABLE api_keys DISABLE TRIGGER USER;
      UPDATE api_keys SET revoked_at = now() WHERE id = '${id}';
      ALTER TABLE api_keys ENABLE TRIGGER USER;
    END $$`);
    await query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'petstore-listener'",
      [],
    );
    await waitFor(async () => (await statuses(key)).every((status) => status === 401), 'the key is rejected');
    expect(await statuses(bystander)).toEqual([200, 200]);
  });
});

describe('lost notifications', () => {
  /** A service behind a proxy that can interrupt notifications alone. Unless its clock is advanced, what it knows does not expire. */
  let database: TestDatabase;
  let proxy: TcpProxy;
  let service: TestService;
  const CACHE_SECONDS = 5;
  beforeEach(async () => {
    database = await createTestDatabase();
    proxy = await TcpProxy.start(database.url, 'petstore-listener');
    const environment = { DATABASE_URL: proxy.urlFor(database.url), API_KEY_CACHE_SECONDS: String(CACHE_SECONDS) };
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

  async function exported(name: string): Promise<number> {
    return (await ServiceMetrics.of(service.app)).sum(name);
  }

  /** @returns what waits until the service has lost the connection for notifications and has another one */
  async function watchConnection(): Promise<() => Promise<void>> {
    const before = await exported('petstore_recoveries_total');
    return () =>
      waitFor(async () => (await exported('petstore_recoveries_total')) > before, 'the service listens again');
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

  it('a key that is revoked after the connection has died silently is rejected when API_KEY_CACHE_SECONDS have passed', async () => {
    const [{ id, key }, { key: other }] = [await insertNotifiedKey(), await insertNotifiedKey()];
    expect([await statusOf(key), await statusOf(other)]).toEqual([200, 200]);
    proxy.dropSilently();
    await revoke(id);
    service.clock.advance(CACHE_SECONDS * 1_000 - 1);
    expect([await statusOf(key), await statusOf(other)]).toEqual([200, 200]);
    service.clock.advance(1);
    expect([await statusOf(key), await statusOf(other)]).toEqual([401, 200]);
    // The service has not noticed it.
    expect(await exported('petstore_listener_connected')).toBe(1);
  });

  it('a key that is revoked while the connection is known to be lost is rejected at once', async () => {
    const { id, key } = await insertKey(database.db);
    expect(await statusOf(key)).toBe(200);
    proxy.rejectConnections();
    await waitFor(async () => (await exported('petstore_listener_connected')) === 0, 'the loss is noticed');
    expect(await statusOf(key)).toBe(200);
    await revoke(id);
    expect(await statusOf(key)).toBe(401);
  });

  it('a key that changed while the connection was lost is known with its changes when it is restored', async () => {
    const { id, key } = await insertKey(database.db, { plan: 'free' });
    expect(await statusOf(key)).toBe(200);
    proxy.rejectConnections();
    await database.db.query("UPDATE api_keys SET plan = 'pro' WHERE id = $1", [id]);
    const untilConnectedAgain = await watchConnection();
    proxy.restore();
    await untilConnectedAgain();
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
    [
      'after the trigger was dropped',
      (insert: string) => `DROP TRIGGER api_keys_notify_changed ON api_keys; ${insert}`,
    ],
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
});
