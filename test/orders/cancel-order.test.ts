import { Agent } from 'node:http';
import { cancelOrder, errorOf, outcomeOfCancel } from '../helpers/api.js';
import { insertKey, insertOrder, insertOrders, statusOf } from '../helpers/builders.js';
import { requestRaw } from '../helpers/raw-http.js';
import { type TestService, startTestService, useTestService } from '../helpers/test-service.js';

describe('DELETE /v1/store/orders/{orderId}', () => {
  const INT64_MAX = '9223372036854775807';
  const INT64_MIN = '-9223372036854775808';

  const context = useTestService();
  let service: TestService;
  let key: string;
  /** A pending order that no test cancels. */
  let untouched: string;

  beforeEach(async () => {
    ({ service, key } = context);
    await service.db.query('TRUNCATE orders');
    untouched = await insertOrder(service.db);
  });
  afterEach(async () => {
    const { rows } = await service.db.query<{ status: string; cancelled_at: Date | null }>(
      'SELECT status::text, cancelled_at FROM orders WHERE id = $1',
      [untouched],
    );
    expect(rows).toEqual([{ status: 'pending', cancelled_at: null }]);
  });

  async function errorForOutcome(id: string): Promise<string> {
    const response = await cancelOrder(service.baseUrl, id, key);
    expect(response.headers.get('cache-control')).toBe('no-store');
    const { status, code } = await errorOf(response);
    return `${status} ${code}`;
  }

  it('cancels a pending order and returns 204 without a body', async () => {
    const id = await insertOrder(service.db);
    const { status, headers, body } = await requestRaw(service.baseUrl, {
      method: 'DELETE',
      path: `/store/orders/${id}`,
      key,
    });
    expect([status, body.length]).toEqual([204, 0]);
    // RFC 9110 section 15.3.5 and RFC 9112 section 6.2: no content, and no header that announces content.
    for (const name of ['content-type', 'content-length', 'transfer-encoding', 'etag']) {
      expect(headers).not.toHaveProperty(name);
    }
    expect(headers['cache-control']).toBe('no-store');
    expect(await statusOf(service.db, id)).toBe('cancelled');
  });

  it('sets cancelled_at and changes no other column', async () => {
    const id = await insertOrder(service.db, { pet_id: INT64_MAX, quantity: 7 });
    const columns = 'pet_id, quantity, ship_date, complete, created_at';
    const before = await service.db.query(`SELECT ${columns}, now() AS at FROM orders WHERE id = $1`, [id]);
    await cancelOrder(service.baseUrl, id, key);
    const after = await service.db.query(
      `SELECT ${columns}, cancelled_at BETWEEN $2 AND now() AS in_time FROM orders WHERE id = $1`,
      [id, (before.rows[0] as { at: Date }).at],
    );
    expect(after.rows).toEqual([{ ...(before.rows[0] as object), at: undefined, in_time: true }]);
  });

  it.each([false, true])('returns 409 for a shipped order, which stays shipped (complete: %p)', async (complete) => {
    const id = await insertOrder(service.db, { status: 'shipped', complete });
    expect(await errorForOutcome(id)).toBe('409 order_already_shipped');
    expect(await statusOf(service.db, id)).toBe('shipped');
  });

  it('returns 409 for a cancelled order and keeps its cancelled_at', async () => {
    const id = await insertOrder(service.db);
    expect((await cancelOrder(service.baseUrl, id, key)).status).toBe(204);
    const cancelledAt = async (): Promise<unknown> =>
      (await service.db.query('SELECT cancelled_at::text FROM orders WHERE id = $1', [id])).rows;
    const before = await cancelledAt();
    expect(await errorForOutcome(id)).toBe('409 order_already_cancelled');
    expect(await cancelledAt()).toEqual(before);
  });

  // The property tests of `parseOrderId` cover other notations; these also pass Node, the router and the decoding.
  it.each([
    '007',
    '-0',
    '%201',
    '1%00',
    '1%2F2',
    '%2531',
    '%31%zz',
    '%EF%BC%91',
    '9223372036854775808',
    '1'.repeat(4_000),
  ])('returns 400 for the order id %s', async (id) => {
    // None of the ids may be read as 1.
    await insertOrder(service.db, { id: '1' });
    expect(await errorForOutcome(id)).toBe('400 invalid_order_id');
    expect(await statusOf(service.db, '1')).toBe('pending');
  });

  it.each([
    ['0', '0', '1'],
    ['-5', '-5', '5'],
    [INT64_MAX, INT64_MAX, '9223372036854775806'],
    [INT64_MIN, INT64_MIN, '-9223372036854775807'],
    ['9007199254740993', '9007199254740993', '9007199254740992'],
    ['-9007199254740993', '-9007199254740993', '-9007199254740992'],
    // RFC 3986 section 6.2.2.2: the same characters, percent-encoded.
    ['%2D5', '-5', '5'],
    ['1%30', '10', '1'],
  ])('reads the order id %s as %s and does not cancel its neighbour %s', async (written, id, neighbour) => {
    await insertOrder(service.db, { id });
    await insertOrder(service.db, { id: neighbour });
    expect((await cancelOrder(service.baseUrl, written, key)).status).toBe(204);
    expect([await statusOf(service.db, id), await statusOf(service.db, neighbour)]).toEqual(['cancelled', 'pending']);
  });

  it('ignores a query string and a body that is no JSON, and keeps the connection usable', async () => {
    const [first, second] = [await insertOrder(service.db), await insertOrder(service.db)];
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    try {
      const request = { method: 'DELETE', key, agent };
      const body = `{"orderId":${untouched}${'x'.repeat(60_000)}`;
      const path = `/store/orders/${first}?orderId=${untouched}&id[]=${untouched}&dryRun=true`;
      const headers = { 'Content-Type': 'application/json' };
      expect((await requestRaw(service.baseUrl, { ...request, path, headers, body })).status).toBe(204);
      expect((await requestRaw(service.baseUrl, { ...request, path: `/store/orders/${second}` })).status).toBe(204);
    } finally {
      agent.destroy();
    }
  });
});

describe('a cancel beside other transactions', () => {
  let service: TestService;
  let key: string;
  beforeEach(async () => {
    service = await startTestService({ environment: { CANCEL_LOCK_TIMEOUT_MS: '15000' } });
    ({ key } = await insertKey(service.db));
  });
  afterEach(() => service.stop());

  function outcome(id: string): Promise<string> {
    return outcomeOfCancel(service.baseUrl, id, key);
  }

  it('cancels return the same results, with statements prepared before, after the type of a column has changed', async () => {
    const ids = await insertOrders(service.db, 40);
    await Promise.all(ids.slice(0, 20).map(outcome));
    await service.db.query(`
    DROP TRIGGER orders_note_insert ON orders;
    DROP TRIGGER orders_note_update ON orders;
    DROP TRIGGER orders_note_delete ON orders;
    ALTER TABLE orders ALTER COLUMN id TYPE integer`);
    const results = await Promise.all(ids.map(outcome));
    expect(new Set(results.slice(0, 20))).toEqual(new Set(['409 order_already_cancelled']));
    expect(new Set(results.slice(20))).toEqual(new Set(['204']));
  });
});
