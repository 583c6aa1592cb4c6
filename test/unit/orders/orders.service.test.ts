import type { CancelOutcome } from '../../../src/orders/orders.repository.js';
import { OrdersService } from '../../../src/orders/orders.service.js';

it.each<[CancelOutcome | undefined, RegExp, string[]]>([
  ['cancelled', /^undefined: undefined$/, ['cancelled', 'a {"cancels":1}']],
  ['already_cancelled', /^order_already_cancelled: .*already been cancelled/, ['already_cancelled']],
  ['already_shipped', /^order_already_shipped: .*already shipped and cannot be cancelled/, ['already_shipped']],
  [undefined, /^order_not_found: No order has this id/, ['not_found']],
  ['suppressed', /^undefined: A trigger on "orders" keeps a pending order from being cancelled/, []],
])(
  'OrdersService.cancel turns the outcome %s into the error %s and counts it as %j',
  async (outcome, expected, counted) => {
    const batcher = {
      cancel: (id: bigint, caller: string) => Promise.resolve(id === 7n && caller === 'a' ? outcome : 'suppressed'),
    };
    const counts: string[] = [];
    const metrics = { cancels: { labels: (label: string) => ({ inc: () => counts.push(label) }) } };
    const usage = { add: (caller: string, added: object) => counts.push(`${caller} ${JSON.stringify(added)}`) };
    const service = new OrdersService(batcher as never, metrics as never, usage as never);
    const error = await service
      .cancel(7n, 'a')
      .catch((reason: unknown) => reason as { code?: string; message: string });
    expect(`${String(error?.code)}: ${String(error?.message)}`).toMatch(expected);
    expect(counts).toEqual(counted);
  },
);
