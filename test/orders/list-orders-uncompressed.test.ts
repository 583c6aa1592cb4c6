import { errorOf, listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { StalledClient } from '../helpers/raw-http.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

const UNCOMPRESSED_MAX = 64;

let service: TestService;
let key: string;
beforeAll(async () => {
  service = await startTestService();
  ({ key } = await insertKey(service.db, { plan: 'business' }));
  // About 15 MB: more than the buffers of both ends of a connection hold.
  await service.db.query('INSERT INTO orders (pet_id, quantity) SELECT n, 1 FROM generate_series(1, 200000) AS n');
  // Now all blocks are in memory, so that no list needs a database connection.
  await (await listOrders(service.baseUrl, key, { 'Accept-Encoding': 'gzip' })).text();
}, 60_000);
afterAll(() => service.stop());

const listPlain = (): Promise<Response> =>
  listOrders(service.baseUrl, key, { 'Accept-Encoding': 'identity', Connection: 'close' });

describe('uncompressed lists whose clients do not read', () => {
  it('are limited to 64 and further ones get 503; compressed lists are not limited', async () => {
    const stalled: StalledClient[] = [];
    for (let client = 0; client < UNCOMPRESSED_MAX; client++) {
      stalled.push(await StalledClient.open(service.port, key));
    }

    const rejected = await listPlain();
    expect(rejected.status).toBe(503);
    expect(rejected.headers.get('retry-after')).toBe('1');
    expect((await errorOf(rejected)).code).toBe('service_unavailable');
    expect((await listOrders(service.baseUrl, key, { 'Accept-Encoding': 'gzip' })).status).toBe(200);

    stalled.forEach((client) => client.disconnect());
    await waitFor(async () => {
      const response = await listPlain();
      await response.arrayBuffer();
      return response.status === 200;
    }, 'an uncompressed list is sent');
  }, 60_000);
});
