import { cancelOrder, errorOf } from '../helpers/api.js';
import { insertOrder, statusOf } from '../helpers/builders.js';
import { useTestService } from '../helpers/test-service.js';
import { exchange, requestText } from '../helpers/wire.js';

const INT64_MAX = '9223372036854775807';
const INT64_MIN = '-9223372036854775808';

const context = useTestService();
/** A pending order that no test cancels. */
let untouched: string;

beforeEach(async () => {
  await context.service.db.query('TRUNCATE orders');
  untouched = await insertOrder(context.service.db);
});
afterEach(async () => {
  expect(await statusOf(context.service.db, untouched)).toBe('pending');
});

it('a pending order is cancelled, and the 204 has no body', async () => {
  const { service, key } = context;
  const id = await insertOrder(service.db);
  const response = await cancelOrder(service.baseUrl, id, key);
  expect([response.status, await response.text()]).toEqual([204, '']);
  // RFC 9110 section 15.3.5 and RFC 9112 section 6.2: no content, and no header that announces content.
  for (const name of ['content-type', 'content-length', 'transfer-encoding', 'etag']) {
    expect([name, response.headers.get(name)]).toEqual([name, null]);
  }
  expect(response.headers.get('cache-control')).toBe('no-store');
  expect(await statusOf(service.db, id)).toBe('cancelled');
});

it('cancelled_at is set, and no other column changes', async () => {
  const { service, key } = context;
  const id = await insertOrder(service.db, { pet_id: INT64_MAX, quantity: 7 });
  const columns = 'pet_id, quantity, ship_date, complete, created_at';
  const before = await service.db.query<{ at: Date }>(`SELECT ${columns}, now() AS at FROM orders WHERE id = $1`, [id]);
  await cancelOrder(service.baseUrl, id, key);
  const after = await service.db.query(
    `SELECT ${columns}, cancelled_at BETWEEN $2 AND now() AS in_time FROM orders WHERE id = $1`,
    [id, before.rows[0]?.at],
  );
  expect(after.rows).toEqual([{ ...before.rows[0], at: undefined, in_time: true }]);
});

it.each([
  ['0', '0', '1'],
  [INT64_MAX, INT64_MAX, '9223372036854775806'],
  [INT64_MIN, INT64_MIN, '-9223372036854775807'],
  // RFC 3986 section 6.2.2.2: the same characters, percent-encoded.
  ['%2D5', '-5', '5'],
])('the order id %s cancels the order %s, and not its neighbour %s', async (written, id, neighbour) => {
  const { service, key } = context;
  await insertOrder(service.db, { id });
  await insertOrder(service.db, { id: neighbour });
  expect((await cancelOrder(service.baseUrl, written, key)).status).toBe(204);
  expect([await statusOf(service.db, id), await statusOf(service.db, neighbour)]).toEqual(['cancelled', 'pending']);
});

it('a query string and a body that is no JSON are ignored, and the connection stays usable', async () => {
  const { service, key } = context;
  const [first, second] = [await insertOrder(service.db), await insertOrder(service.db)];
  const body = `{"orderId":${untouched}${'x'.repeat(60_000)}`;
  const headers = ['Content-Type: application/json', `Content-Length: ${body.length}`];
  const target = `/v1/store/orders/${first}?orderId=${untouched}&id[]=${untouched}&dryRun=true`;
  const text =
    requestText('DELETE', target, { key, headers, body }) +
    requestText('DELETE', `/v1/store/orders/${second}`, { key });
  const { responses } = await exchange(service.port, text, { until: 2 });
  expect(responses.map(({ status }) => status)).toEqual([204, 204]);
  expect([await statusOf(service.db, first), await statusOf(service.db, second)]).toEqual(['cancelled', 'cancelled']);
});

/** @returns the status and the code of the error */
async function errorForCancel(id: string): Promise<string> {
  const response = await cancelOrder(context.service.baseUrl, id, context.key);
  expect(response.headers.get('cache-control')).toBe('no-store');
  const { status, code } = await errorOf(response);
  return `${status} ${code}`;
}

// The property tests of `parseOrderId` have other notations; these also pass Node, the router and the decoding.
it.each(['9223372036854775808', '1'.repeat(4_000), '1%2F2', '%2531', '%31%zz', '%31%ff', '1%0d%0aX-Injected:%20yes'])(
  '400 invalid_order_id for the order id %s',
  async (id) => {
    // None of the ids may be read as 1.
    await insertOrder(context.service.db, { id: '1' });
    expect(await errorForCancel(id)).toBe('400 invalid_order_id');
    expect(await statusOf(context.service.db, '1')).toBe('pending');
  },
);

it('404 order_not_found when there is no such order', async () => {
  await insertOrder(context.service.db, { id: '9007199254740992' });
  expect(await errorForCancel('9007199254740993')).toBe('404 order_not_found');
  expect(await statusOf(context.service.db, '9007199254740992')).toBe('pending');
});

it('409 order_already_shipped when the order is shipped, which it stays', async () => {
  const id = await insertOrder(context.service.db, { status: 'shipped' });
  expect(await errorForCancel(id)).toBe('409 order_already_shipped');
  expect(await statusOf(context.service.db, id)).toBe('shipped');
});

it('409 order_already_cancelled when the order is cancelled, which keeps its cancelled_at', async () => {
  const id = await insertOrder(context.service.db);
  expect((await cancelOrder(context.service.baseUrl, id, context.key)).status).toBe(204);
  const cancelledAt = async (): Promise<unknown> =>
    (await context.service.db.query('SELECT cancelled_at::text FROM orders WHERE id = $1', [id])).rows;
  const before = await cancelledAt();
  expect(await errorForCancel(id)).toBe('409 order_already_cancelled');
  expect(await cancelledAt()).toEqual(before);
});
