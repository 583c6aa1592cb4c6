import { generateKey } from '../../src/api-keys/api-keys.admin.js';
import { call, listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { lockTable, untilLockWaits } from '../helpers/lock-waits.js';
import { insertNotifiedKey, untilNotified } from '../helpers/notifications.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { TcpProxy } from '../helpers/tcp-proxy.js';
import { startTestService, useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

// Look-ups wait for a locked table as long as a test locks it.
const context = useTestService({ environment: { CANCEL_LOCK_TIMEOUT_MS: '30000' } });

async function lookUps(): Promise<number> {
  return (await ServiceMetrics.of(context.service.app)).sum('petstore_api_key_lookups_total', 'database');
}

it('a key that is revoked between its look-up and the response to that is rejected from the next request on', async () => {
  const proxy = await TcpProxy.start(context.service.url);
  const environment = { DATABASE_URL: proxy.urlFor(context.service.url), API_KEY_CACHE_SECONDS: '3600' };
  const service = await startTestService({ database: context.service, environment });
  const statusOf = async (of: string): Promise<number> =>
    (await call(service.baseUrl, 'HEAD', '/store/orders', of)).status;
  try {
    const { id, key } = await insertNotifiedKey(service);
    const revoked = proxy.after('FROM api_keys', () =>
      untilNotified(service, async () => {
        await service.db.query('UPDATE api_keys SET revoked_at = now() WHERE id = $1', [id]);
        return key;
      }),
    );
    expect(await statusOf(key)).toBe(200);
    await revoked;
    expect(await statusOf(key)).toBe(401);
  } finally {
    await service.stop();
    await proxy.close();
  }
});

it('500 guessed keys in flight delay no valid key of their address', async () => {
  const { service } = context;
  const { key } = await insertKey(service.db);
  const unlock = await lockTable(service.db, 'api_keys');
  const guesses = Array.from({ length: 500 }, () => listOrders(service.baseUrl, generateKey()));
  await untilLockWaits(service.db);
  await unlock();
  expect((await listOrders(service.baseUrl, key)).status).toBe(200);
  const statuses = (await Promise.all(guesses)).map(({ status }) => status);
  expect(new Set(statuses)).toEqual(new Set([401, 429]));
});

it('a key with a plan that this version does not know gets 500, and others in its look-up are admitted', async () => {
  const { service } = context;
  await service.db.query("ALTER TYPE plan ADD VALUE 'gold'");
  const { id, key } = await insertKey(service.db, { plan: 'free' });
  await service.db.query("UPDATE api_keys SET plan = 'gold' WHERE id = $1", [id]);
  const others = await Promise.all(Array.from({ length: 6 }, () => insertKey(service.db)));
  const head = async (of: string): Promise<number> => (await call(service.baseUrl, 'HEAD', '/store/orders', of)).status;
  const before = await lookUps();
  const unlock = await lockTable(service.db, 'api_keys');
  // While two look-ups wait, those that arrive share the next one.
  const statuses = [head(others[0]!.key)];
  await untilLockWaits(service.db, 1, 'petstore-main');
  statuses.push(head(others[1]!.key));
  await untilLockWaits(service.db, 2, 'petstore-main');
  statuses.push(...[key, ...others.slice(2).map((other) => other.key)].map(head));
  await waitFor(async () => (await lookUps()) === before + 7, 'all look-ups have arrived');
  await unlock();
  expect(await Promise.all(statuses)).toEqual([200, 200, 500, 200, 200, 200, 200]);
});
