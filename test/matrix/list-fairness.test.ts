import { get } from 'node:http';
import { insertKey } from '../helpers/builders.js';
import { StalledClient } from '../helpers/raw-http.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';

/** Lists of more than all buffers between PostgreSQL and a client hold, also when they are compressed. */
const ORDERS = { dense: 1_000_000, sparse: 400_000 };
const INSERT = {
  dense: `INSERT INTO orders (id, pet_id, quantity) SELECT n, 1 + n::bigint * 7919 % 1000003, 1 + n % 9 FROM generate_series(1, ${ORDERS.dense}) AS n`,
  /** Nearly every order in a block of its own. */
  sparse: `INSERT INTO orders (id, pet_id, quantity)
    SELECT n::bigint * 20011, 1 + n::bigint * 7919 % 1000003, 1 + n % 9 FROM generate_series(1, ${ORDERS.sparse}) AS n`,
};
const STARTS_WITHIN_MS = 5_000;

/** @returns when the list started, in milliseconds after the request, and whether all of it arrived */
function list(
  baseUrl: string,
  key: string,
  encoding: string,
): Promise<{ status: number | undefined; startedMs: number; isComplete: boolean }> {
  return new Promise((resolve, reject) => {
    const requestedAt = performance.now();
    const headers = { Authorization: `Bearer ${key}`, 'Accept-Encoding': encoding };
    get(`${baseUrl}/v1/store/orders`, { headers, agent: false }, (response) => {
      response.once('readable', () => {
        const startedMs = performance.now() - requestedAt;
        response.resume().on('close', () => {
          resolve({ status: response.statusCode, startedMs, isComplete: response.complete });
        });
      });
    }).on('error', reject);
  });
}

describe.each(['dense', 'sparse'] as const)('with %s ids', (ids) => {
  let database: TestDatabase;
  let service: TestService;

  beforeAll(async () => {
    database = await createTestDatabase();
    await database.db.query(INSERT[ids]);
  });
  afterAll(() => database.drop());
  afterEach(() => service.stop());

  it.each(
    [64, 8].flatMap((readers) =>
      ['64', '0'].flatMap((cacheMb) => ['gzip', 'identity'].map((encoding) => ({ readers, cacheMb, encoding }))),
    ),
  )(
    'lists of other keys start while one key has $readers stalled lists ($encoding, LIST_CACHE_MB=$cacheMb)',
    async ({ readers, cacheMb, encoding }) => {
      service = await startTestService({ database, environment: { LIST_CACHE_MB: cacheMb } });
      const greedy = await insertKey(database.db);
      const others = [await insertKey(database.db), await insertKey(database.db)];
      const stalled = await Promise.all(
        Array.from({ length: readers }, () =>
          StalledClient.open(service.port, greedy.key, { 'Accept-Encoding': encoding }),
        ),
      );
      for (const [index, wanted] of ['gzip', 'identity', encoding].entries()) {
        const { key } = others[index % others.length]!;
        const { status, startedMs, isComplete } = await list(service.baseUrl, key, wanted);
        expect([status, isComplete]).toEqual([200, true]);
        expect(startedMs).toBeLessThan(STARTS_WITHIN_MS);
      }
      for (const client of stalled) {
        client.disconnect();
      }
    },
  );
});
