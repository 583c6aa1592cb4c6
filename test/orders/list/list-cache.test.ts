import { seedOrders } from '../../../src/orders/seed-orders.js';
import { PieceCache } from '../../../src/orders/list/piece-cache.js';
import { insertKey } from '../../helpers/builders.js';
import { describeWith } from '../../helpers/describe-with.js';
import { runProcess } from '../../helpers/petstore.js';
import { useTestDatabase } from '../../helpers/test-database.js';
import { ServiceMetrics } from '../../helpers/service-metrics.js';
import { startTestService, type TestService } from '../../helpers/test-service.js';

/** Six blocks and a part of a seventh, each a piece. */
const ORDERS = 100_000;
const PIECES = 7;

const database = useTestDatabase();
let service: TestService;
let key: string;

beforeAll(async () => {
  ({ key } = await insertKey(database.db));
  const client = await database.db.connect();
  await seedOrders(client, ORDERS).finally(() => client.release());
});
beforeEach(async () => {
  service = await startTestService({ database });
});
afterEach(async () => {
  jest.restoreAllMocks();
  await service.stop();
});

/** The body as text; not checked against the document, which would take seconds for each list. */
async function list(encoding: 'gzip' | 'identity', from: TestService = service): Promise<string> {
  const headers = { Authorization: `Bearer ${key}`, 'Accept-Encoding': encoding };
  const response = await fetch(`${from.baseUrl}/v1/store/orders`, { headers });
  expect([response.status, response.headers.get('content-encoding')]).toEqual([
    200,
    encoding === 'gzip' ? 'gzip' : null,
  ]);
  return response.text();
}

async function piecesRead(from: TestService = service): Promise<number> {
  return (await ServiceMetrics.of(from.app)).sum('petstore_list_pieces_total', 'database');
}

describe('pieces of the order list', () => {
  it('are read once each when 16 clients ask at once and none is in memory', async () => {
    const [first, ...others] = await Promise.all(Array.from({ length: 16 }, () => list('gzip')));
    expect(await piecesRead()).toBe(PIECES);
    expect(others.every((text) => text === first)).toBe(true);
    expect(JSON.parse(first!)).toHaveLength(ORDERS);
  });

  it.each([
    ['no memory', '0', 2 * PIECES, 2 * PIECES],
    ['memory for a part', '1', PIECES + 1, 2 * PIECES - 1],
    ['memory for all', '64', PIECES, PIECES],
  ])('give the same list with %s, compressed or not', async (_what, megabytes, atLeast, atMost) => {
    const other = await startTestService({ database, environment: { LIST_CACHE_MB: megabytes } });
    try {
      const expected = await list('gzip');
      expect([await list('gzip', other), await list('identity', other)]).toEqual([expected, expected]);
      expect(await piecesRead(other)).toBeGreaterThanOrEqual(atLeast);
      expect(await piecesRead(other)).toBeLessThanOrEqual(atMost);
    } finally {
      await other.stop();
    }
  });

  it('make room for those of the next version when there is memory for a part of them', async () => {
    const other = await startTestService({ database, environment: { LIST_CACHE_MB: '1' } });
    try {
      await list('gzip', other);
      await database.db.query('SELECT renew_order_list_versions()');
      await list('gzip', other);
      const all = async (): Promise<number> => (await ServiceMetrics.of(other.app)).sum('petstore_list_pieces_total');
      const [read, before] = [await piecesRead(other), await all()];
      await list('gzip', other);
      // Of seven, three or four fit.
      expect([3, 4]).toContain((await piecesRead(other)) - read);
      expect((await all()) - before).toBe(PIECES);
    } finally {
      await other.stop();
    }
  });

  it('never make a complete response when one is corrupt in memory, and are read again', async () => {
    const expected = await list('gzip');
    const chunks = [{ deflated: Buffer.from([0, 1, 0, 0xfe, 0xff, 0x61]), crc: 0, length: 1 }];
    const corrupted = jest
      .spyOn(PieceCache.prototype, 'whole')
      .mockReturnValue([{ users: 0, isOutdated: false, bytes: 0, chunks }]);
    await expect(list('identity')).rejects.toThrow();
    corrupted.mockRestore();
    const before = await piecesRead();
    expect(await list('identity')).toBe(expected);
    expect(await piecesRead()).toBe(before + PIECES);
  });
});

/** Like Chromium, curl reads no further than the first gzip member. */
describeWith('curl')('a compressed list fetched by curl', () => {
  it('is the uncompressed list', async () => {
    const options = ['--silent', '--compressed', '--header', `Authorization: Bearer ${key}`];
    const { stdout } = await runProcess(['curl', ...options, `${service.baseUrl}/v1/store/orders`]);
    expect(stdout).toBe(await list('identity'));
  });
});
