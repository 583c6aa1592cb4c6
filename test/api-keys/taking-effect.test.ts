import { generateKey, hashKey } from '../../src/api-keys/key-format.js';
import { call } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

/**
 * Two services on one database. Their clocks do not advance, so cache entries never expire and only a notification can
 * invalidate them.
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
  ({ key: bystander } = await insertKey(services[0].db));
  // Cached by both from now on.
  await statuses(bystander);
});

describe('every process applies when it is notified, while its cache entries are fresh,', () => {
  it('the revocation of a key', async () => {
    const { id, key } = await insertKey(services[0].db);
    expect(await statuses(key)).toEqual([200, 200]);
    await query('UPDATE api_keys SET revoked_at = now() WHERE id = $1', [id]);
    await expectEverywhere(key, 401);
  });

  it('a revocation by a session that has switched triggers off', async () => {
    const { id, key } = await insertKey(services[0].db);
    expect(await statuses(key)).toEqual([200, 200]);
    await services[0].db.query(
      `BEGIN; SET LOCAL session_replication_role = 'replica';
       UPDATE api_keys SET revoked_at = now() WHERE id = '${id}'; COMMIT`,
    );
    await expectEverywhere(key, 401);
  });

  it('the issue of a key that was rejected before', async () => {
    const key = generateKey();
    expect(await statuses(key)).toEqual([401, 401]);
    await query("INSERT INTO api_keys (name, key_prefix, key_hash, plan) VALUES ('n', 'p', decode($1, 'hex'), 'pro')", [
      hashKey(key),
    ]);
    await expectEverywhere(key, 200);
  });

  it('the deletion of a key', async () => {
    const { id, key } = await insertKey(services[0].db);
    expect(await statuses(key)).toEqual([200, 200]);
    await query('DELETE FROM api_keys WHERE id = $1', [id]);
    await expectEverywhere(key, 401);
  });

  it('a new and a removed expiry', async () => {
    const { id, key } = await insertKey(services[0].db);
    expect(await statuses(key)).toEqual([200, 200]);
    await query('UPDATE api_keys SET expires_at = $2 WHERE id = $1', [id, new Date(services[0].clock.now())]);
    await expectEverywhere(key, 401);
    await query('UPDATE api_keys SET expires_at = NULL WHERE id = $1', [id]);
    await expectEverywhere(key, 200);
  });

  it('another plan, without resetting the counts', async () => {
    const { id, key } = await insertKey(services[0].db, { plan: 'free' });
    expect(await statuses(key)).toEqual([200, 200]);
    await query("UPDATE api_keys SET plan = 'pro' WHERE id = $1", [id]);
    const pro = '"minute";q=300;w=60, "day";q=10000;w=86400';
    await waitFor(async () => (await policies(key)).every((policy) => policy === pro), 'the new plan');
    const response = await call(services[0].baseUrl, 'HEAD', '/store/orders', key);
    expect(Number(response.headers.get('x-ratelimit-remaining'))).toBeLessThan(299);
  });

  it('other quotas of an Enterprise key', async () => {
    const { id, key } = await insertKey(services[0].db);
    await statuses(key);
    await query('UPDATE api_keys SET requests_per_minute = 7 WHERE id = $1', [id]);
    await waitFor(
      async () => (await policies(key)).every((policy) => policy?.startsWith('"minute";q=7;')),
      'the new minute',
    );
    await query('UPDATE api_keys SET requests_per_day = 8 WHERE id = $1', [id]);
    const both = '"minute";q=7;w=60, "day";q=8;w=86400';
    await waitFor(async () => (await policies(key)).every((policy) => policy === both), 'the new day');
    expect(await policies(bystander)).not.toContain(both);
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

  it('many changes in one transaction', async () => {
    const made = await Promise.all(Array.from({ length: 20 }, () => insertKey(services[0].db)));
    for (const { key } of made) {
      expect(await statuses(key)).toEqual([200, 200]);
    }
    await query('UPDATE api_keys SET revoked_at = now() WHERE id = ANY($1)', [made.map(({ id }) => id)]);
    for (const { key } of made) {
      await expectEverywhere(key, 401);
    }
  });
});

describe('a change that is not committed', () => {
  it('takes no effect', async () => {
    const { id, key } = await insertKey(services[0].db);
    expect(await statuses(key)).toEqual([200, 200]);
    const client = await services[0].db.connect();
    await client.query('BEGIN');
    await client.query('UPDATE api_keys SET revoked_at = now() WHERE id = $1', [id]);
    expect(await statuses(key)).toEqual([200, 200]);
    await client.query('ROLLBACK');
    client.release();
    expect(await statuses(key)).toEqual([200, 200]);
  });
});

describe('a process whose listening connection was lost', () => {
  it('looks up every key again after it has reconnected', async () => {
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
