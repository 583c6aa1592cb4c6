import { cancelOrder, errorOf } from '../helpers/api.js';
import { insertOrder, statusOf } from '../helpers/builders.js';
import { useTestService } from '../helpers/test-service.js';

const context = useTestService();

beforeEach(() => context.service.db.query('TRUNCATE orders'));

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
