import { listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { StalledClient } from '../helpers/raw-http.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { useTestDatabase } from '../helpers/test-database.js';
import { startTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

/** Nearly every order in a block of its own: a list of more than all buffers hold, also when it is compressed. */
const INSERT = `INSERT INTO orders (id, pet_id, quantity)
  SELECT n::bigint * 20011, 1 + n::bigint * 7919 % 1000003, 1 + n % 9 FROM generate_series(1, 400000) AS n`;

const database = useTestDatabase();
beforeAll(async () => {
  await database.db.query(INSERT);
});

it('an uncompressed list waits for more than 10 s while others of its key begin', async () => {
  const environment = { LIST_STALL_SECONDS: '5' };
  const service = await startTestService({ database, environment });
  const { key } = await insertKey(database.db);
  // Sixteen have their turn at once, and are closed after five seconds.
  const stalled = Array.from({ length: 48 }, () => StalledClient.open(service.port, key));
  await waitFor(
    async () => (await ServiceMetrics.of(service.app)).sum('petstore_connections') >= 48,
    'all of them are connected',
  );
  const startedAt = performance.now();
  const response = await listOrders(service.baseUrl, key, { 'Accept-Encoding': 'identity' });
  expect(response.status).toBe(200);
  expect((await response.arrayBuffer()).byteLength).toBeGreaterThan(20_000_000);
  expect(performance.now() - startedAt).toBeGreaterThan(10_000);
  (await Promise.all(stalled)).forEach((client) => client.disconnect());
  await service.stop();
});

it.each(['64', '0'].flatMap((cacheMb) => ['gzip', 'identity'].map((encoding) => ({ cacheMb, encoding }))))(
  'lists of another key are sent while one key has 16 stalled lists ($encoding, LIST_CACHE_MB=$cacheMb)',
  async ({ cacheMb, encoding }) => {
    const service = await startTestService({ database, environment: { LIST_CACHE_MB: cacheMb } });
    const [greedy, other] = [await insertKey(database.db), await insertKey(database.db)];
    const headers = { 'Accept-Encoding': encoding };
    const stalled = await Promise.all(
      Array.from({ length: 16 }, () => StalledClient.open(service.port, greedy.key, headers)),
    );
    for (const wanted of ['gzip', 'identity']) {
      const response = await listOrders(service.baseUrl, other.key, { 'Accept-Encoding': wanted });
      expect(response.status).toBe(200);
      expect((await response.arrayBuffer()).byteLength).toBeGreaterThan(20_000_000);
    }
    // Without memory, the key gets a quarter of the slots, and 503 for its other lists.
    const isListed = ({ isComplete, text }: StalledClient): boolean => isComplete && !text.startsWith('HTTP/1.1 503 ');
    expect(stalled.filter(isListed)).toEqual([]);
    stalled.forEach((client) => client.disconnect());
    await service.stop();
  },
);
