import { UsageWriter } from '../../src/api-keys/usage/usage-writer.js';
import { Pools } from '../../src/database/pools.js';
import { cancelOrder, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { expectLimitHeaders } from '../helpers/limit-headers.js';
import { requestRaw } from '../helpers/raw-http.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

let service: TestService;
let key: string;

beforeAll(async () => {
  service = await startTestService();
  ({ key } = await insertKey(service.db));
  await insertOrder(service.db, { id: '1' });
  await insertOrder(service.db, { id: '2' });
});
afterAll(async () => {
  await service.stop();
});

async function currentEtag(): Promise<string> {
  const response = await listOrders(service.baseUrl, key);
  expect(response.status).toBe(200);
  await response.text();
  return response.headers.get('etag') ?? '';
}

/** How many rows a statement changed. */
async function written(db: TestDatabase['db'], statement: string): Promise<number | null> {
  return (await db.query(statement)).rowCount;
}

async function statusWith(etag: string): Promise<number> {
  const response = await listOrders(service.baseUrl, key, { 'If-None-Match': etag });
  await response.text();
  return response.status;
}

describe('GET /v1/store/orders with If-None-Match', () => {
  it('returns 304 with the rate-limit headers and no body for the current tag', async () => {
    const etag = await currentEtag();
    const { status, headers, body } = await requestRaw(service.baseUrl, { key, headers: { 'If-None-Match': etag } });
    expect([status, body.length]).toEqual([304, 0]);
    // RFC 9110 section 15.4.5: the headers that the 200 would have had.
    expect(headers).toMatchObject({
      etag,
      'cache-control': 'private, no-cache',
      vary: 'Authorization, Accept-Encoding',
    });
    expect(headers).not.toHaveProperty('content-type');
    expect(headers).not.toHaveProperty('transfer-encoding');
    expectLimitHeaders(headers);
  });

  it('returns 304 for the tag in the second of two header lines, and the whole list for other tags', async () => {
    const statuses: number[] = [];
    for (const tag of [await currentEtag(), '"another"']) {
      const headers = { 'If-None-Match': ['"other"', tag] };
      const { status, body } = await requestRaw(service.baseUrl, { key, headers });
      statuses.push(status);
      expect(body.toString()).toMatch(status === 304 ? /^$/ : /^\[\{"id":1,.*\}\]$/);
    }
    expect(statuses).toEqual([304, 200]);
  });

  // The tests of the versions of the list cover the other changes.
  it('returns 200 with another tag after an order has been inserted', async () => {
    const before = await currentEtag();
    await insertOrder(service.db);
    expect(await statusWith(before)).toBe(200);
    const after = await currentEtag();
    expect(after).not.toBe(before);
    expect(await statusWith(after)).toBe(304);
  });

  it.each<[string, (pending: string) => Promise<number | null>]>([
    ['an order is cancelled', async (id) => Number((await cancelOrder(service.baseUrl, id, key)).status === 204)],
    ['an order is shipped', (id) => written(service.db, `UPDATE orders SET status = 'shipped' WHERE id = ${id}`)],
    [
      'another database is written',
      async () => {
        const other = await createTestDatabase();
        await insertOrder(other.db);
        const changed = await written(other.db, 'UPDATE orders SET quantity = quantity + 1');
        await other.drop();
        return changed;
      },
    ],
  ])('returns 304 after %s, which the list does not show', async (_what, change) => {
    const pending = await insertOrder(service.db);
    const etag = await currentEtag();
    expect(await change(pending)).toBe(1);
    expect(await statusWith(etag)).toBe(304);
  });

  it('changes the tag when a change is committed, not before', async () => {
    const session = await service.db.connect();
    await session.query('BEGIN; UPDATE orders SET quantity = quantity + 1 WHERE id = 1');
    const before = await currentEtag();
    expect(await statusWith(before)).toBe(304);
    await session.query('COMMIT');
    session.release();
    expect(await statusWith(before)).toBe(200);
  });

  it('returns the same tag for HEAD as for GET, and 304 for a conditional HEAD', async () => {
    const etag = await currentEtag();
    const head = await requestRaw(service.baseUrl, { method: 'HEAD', key });
    expect([head.status, head.headers.etag]).toEqual([200, etag]);
    const again = await requestRaw(service.baseUrl, { method: 'HEAD', key, headers: { 'If-None-Match': etag } });
    expect([again.status, again.headers.etag, again.body.length]).toEqual([304, etag, 0]);
  });

  it('returns the same tag in every process on the same database', async () => {
    const other = await startTestService({ database: service });
    try {
      const etag = await currentEtag();
      const response = await listOrders(other.baseUrl, key, { 'If-None-Match': etag });
      expect([response.status, response.headers.get('etag')]).toEqual([304, etag]);
      await insertOrder(service.db);
      expect((await listOrders(other.baseUrl, key, { 'If-None-Match': etag })).status).toBe(200);
    } finally {
      await other.stop();
    }
  });

  it('returns the same tag for a list and a poll, whatever time zone and date style the database has', async () => {
    const { rows } = await service.db.query<{ name: string }>('SELECT current_database() AS name');
    const name = rows[0]?.name ?? '';
    await service.db.query(`ALTER DATABASE ${name} SET timezone = 'America/St_Johns'`);
    await service.db.query(`ALTER DATABASE ${name} SET datestyle = 'German, DMY'`);
    const other = await startTestService({ database: service });
    try {
      const list = await listOrders(other.baseUrl, key);
      await list.text();
      const poll = await listOrders(other.baseUrl, key, { 'If-None-Match': list.headers.get('etag') ?? '' });
      expect([poll.status, poll.headers.get('etag')]).toEqual([304, list.headers.get('etag')]);
    } finally {
      await other.stop();
      await service.db.query(`ALTER DATABASE ${name} RESET ALL`);
    }
  });

  it('never returns 304 for a tag from before a change, also during a poll that began before it', async () => {
    const etag = await currentEtag();
    const { main } = service.app.get(Pools);
    const query = main.query.bind(main) as (...args: unknown[]) => Promise<unknown>;
    const changed = new AbortController();
    let looks = 0;
    // The first poll has read the version already, and its response is late.
    const delayed = async (...args: unknown[]): Promise<unknown> => {
      const result = await query(...args);
      if ((args[0] as { name?: string }).name === 'list_name' && ++looks === 1) {
        await waitFor(() => changed.signal.aborted, 'an order is inserted and more polls have arrived');
      }
      return result;
    };
    const spy = jest.spyOn(main, 'query').mockImplementation((...args: unknown[]) => delayed(...args) as never);
    try {
      const pollBefore = statusWith(etag);
      await waitFor(() => looks === 1, 'the first poll has read the version');
      await insertOrder(service.db);
      const pollsAfter = [statusWith(etag), statusWith(etag), statusWith(etag)];
      // They have arrived once a request that was sent after them has its response.
      expect((await cancelOrder(service.baseUrl, '404404', key)).status).toBe(404);
      changed.abort();
      expect([await pollBefore, ...(await Promise.all(pollsAfter))]).toEqual([304, 200, 200, 200]);
    } finally {
      spy.mockRestore();
    }
  });

  it('never returns the same tag for two different lists while orders change', async () => {
    const stopped = new AbortController();
    const writing = Array.from({ length: 3 }, async (_, writer) => {
      for (let quantity = 1; !stopped.signal.aborted; quantity++) {
        await service.db.query('UPDATE orders SET quantity = $1, pet_id = $2 WHERE id = 1', [quantity, writer]);
      }
    });
    const listed = new Map<string, Set<string>>();
    await Promise.all(
      Array.from({ length: 4 }, async () => {
        for (let round = 0; round < 50; round++) {
          const response = await listOrders(service.baseUrl, key);
          const [etag, text] = [response.headers.get('etag') ?? '', await response.text()];
          listed.set(etag, (listed.get(etag) ?? new Set()).add(text));
        }
      }),
    );
    stopped.abort();
    await Promise.all(writing);
    expect(listed.size).toBeGreaterThan(20);
    expect([...listed.values()].filter((texts) => texts.size > 1)).toEqual([]);
  });

  it('returns 304 to a client that polls once a minute while its use of the key is recorded', async () => {
    const etag = await currentEtag();
    for (let minute = 1; minute <= 5; minute++) {
      service.clock.advance(60_000);
      expect(await statusWith(etag)).toBe(304);
      await service.app.get(UsageWriter).flush();
    }
  });
});
