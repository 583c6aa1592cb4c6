import type pg from 'pg';
import { Ledger } from './ledger.js';
import { ListHistory } from './list-history.js';
import { OrderHistory } from './order-history.js';

const at = (startMs: number, endMs: number): { startMs: number; endMs: number } => ({ startMs, endMs });

/** Whether a history is found to be impossible. */
function isFaulty(tell: (history: OrderHistory) => void): boolean {
  const history = new OrderHistory();
  history.changed('1', 'inserted', at(0, 1));
  tell(history);
  return history.faults().length > 0;
}

describe('the judge of what was told of orders', () => {
  it.each<[string, (history: OrderHistory) => void]>([
    ['an order that was left alone', (order) => order.saw('1', 'pending', at(2, 3))],
    [
      'a shipment while the cancel was under way',
      (order) => {
        order.changed('1', 'shipped', at(2, 9));
        order.saw('1', 'pending', at(3, 4));
        order.saw('1', 'shipped', at(4, 5));
      },
    ],
    [
      'a cancel that was never answered and carried out later',
      (order) => {
        order.mayHaveChanged('1', 'cancelled', 2);
        order.saw('1', 'pending', at(5, 6));
        order.saw('1', 'cancelled', at(7, 8));
      },
    ],
    [
      'a cancel that was never answered and never carried out',
      (order) => {
        order.mayHaveChanged('1', 'cancelled', 2);
        order.changed('1', 'shipped', at(5, 6));
      },
    ],
    [
      'a pending order that is deleted',
      (order) => {
        order.saw('1', 'unshipped', at(2, 3));
        order.changed('1', 'deleted', at(4, 5));
        order.saw('1', 'absent', at(6, 7));
      },
    ],
  ])('accepts %s', (_what, tell) => {
    expect(isFaulty(tell)).toBe(false);
  });

  it.each<[string, (history: OrderHistory) => void]>([
    [
      'two cancels that both succeed',
      (order) => {
        order.changed('1', 'cancelled', at(2, 3));
        order.changed('1', 'cancelled', at(4, 5));
      },
    ],
    [
      'a cancel beside a shipment',
      (order) => {
        order.changed('1', 'cancelled', at(2, 9));
        order.changed('1', 'shipped', at(2, 9));
      },
    ],
    [
      'a cancel that is lost',
      (order) => {
        order.changed('1', 'cancelled', at(2, 3));
        order.saw('1', 'pending', at(4, 5));
      },
    ],
    [
      'a cancel that turns out to be a shipment',
      (order) => {
        order.changed('1', 'cancelled', at(2, 3));
        order.saw('1', 'shipped', at(4, 5));
      },
    ],
    ['a cancel that nobody asked for', (order) => order.saw('1', 'cancelled', at(2, 3))],
    [
      'a cancel that was told of before it was asked for',
      (order) => {
        order.saw('1', 'cancelled', at(2, 3));
        order.changed('1', 'cancelled', at(4, 5));
      },
    ],
    [
      'a shipment that comes and goes',
      (order) => {
        order.changed('1', 'shipped', at(2, 9));
        order.saw('1', 'shipped', at(3, 4));
        order.saw('1', 'unshipped', at(5, 6));
      },
    ],
    ['an order that is gone without anybody deleting it', (order) => order.saw('1', 'absent', at(2, 3))],
    [
      'an order that comes back',
      (order) => {
        order.changed('1', 'deleted', at(2, 3));
        order.saw('1', 'pending', at(4, 5));
      },
    ],
  ])('rejects %s', (_what, tell) => {
    expect(isFaulty(tell)).toBe(true);
  });
});

describe('the judge of lists', () => {
  /** Two ledgers that have made two changes each, at the times 10 to 11 and 20 to 21. */
  async function history(): Promise<ListHistory> {
    const ledgers = [1, 2].map((number) => new Ledger(String(number), number, acceptingAll()));
    const now = jest.spyOn(performance, 'now');
    for (const times of [
      [10, 11],
      [20, 21],
    ] as const) {
      for (const ledger of ledgers) {
        now.mockReset().mockReturnValueOnce(times[0]).mockReturnValueOnce(times[1]);
        await ledger.change(() => false);
      }
    }
    now.mockRestore();
    return new ListHistory(ledgers);
  }

  function acceptingAll(): pg.Pool {
    const client = { query: () => Promise.resolve({ rows: [] }), release: () => undefined };
    return { connect: () => Promise.resolve(client) } as unknown as pg.Pool;
  }

  interface Row {
    id: number;
    quantity: number;
    complete: boolean;
    shipDate?: string;
  }
  const row = (id: number, quantity: number): Row => ({ id, quantity, complete: false });
  /** The list after so many changes of each ledger. */
  const list = (first: number, second: number): Row[] => [
    row(1_000_000, first + 1),
    ...Array.from({ length: first }, (_, index) => row(1_000_001 + index, index + 1)),
    row(2_000_000, second + 1),
    ...Array.from({ length: second }, (_, index) => row(2_000_001 + index, index + 1)),
    row(501_000_000, first + 1),
    row(502_000_000, second + 1),
  ];

  it('accepts every state that existed, seen when it can have been', async () => {
    const lists = await history();
    lists.saw(JSON.stringify(list(0, 0)), 'a', at(1, 2));
    lists.saw(JSON.stringify(list(1, 0)), 'b', at(10, 11));
    lists.saw(JSON.stringify(list(1, 1)), 'c', at(12, 13));
    lists.sawUnchanged('c', at(14, 15));
    lists.saw(JSON.stringify(list(2, 2)), 'd', at(30, 31));
    expect(lists.faults()).toEqual([]);
  });

  it.each<[string, (lists: ListHistory) => void]>([
    [
      'a missing order',
      (lists) => lists.saw(JSON.stringify(list(1, 1).filter(({ id }) => id !== 1_000_001)), 'a', at(12, 13)),
    ],
    [
      'a doubled order',
      (lists) => lists.saw(JSON.stringify(list(1, 1).flatMap((order) => [order, order])), 'a', at(12, 13)),
    ],
    [
      'half a change',
      (lists) =>
        lists.saw(
          JSON.stringify(list(1, 1).map((order) => (order.id === 501_000_000 ? row(order.id, 1) : order))),
          'a',
          at(12, 13),
        ),
    ],
    ['a state that is past', (lists) => lists.saw(JSON.stringify(list(1, 1)), 'a', at(30, 31))],
    ['a state that is to come', (lists) => lists.saw(JSON.stringify(list(2, 1)), 'a', at(12, 13))],
    ['a part of a list', (lists) => lists.saw(JSON.stringify(list(1, 1)).slice(0, -9), 'a', at(12, 13))],
    [
      'two lists that disagree on which change came first',
      (lists) => {
        lists.saw(JSON.stringify(list(1, 0)), 'a', at(10, 11));
        lists.saw(JSON.stringify(list(0, 1)), 'b', at(10, 11));
      },
    ],
    [
      'one tag for two lists',
      (lists) => {
        lists.saw(JSON.stringify(list(0, 0)), 'a', at(10, 11));
        lists.saw(JSON.stringify(list(1, 1)), 'a', at(10, 11));
      },
    ],
    [
      'a list that is said to be unchanged and is not',
      (lists) => {
        lists.saw(JSON.stringify(list(1, 1)), 'a', at(12, 13));
        lists.sawUnchanged('a', at(30, 31));
      },
    ],
  ])('rejects %s', async (_what, tell) => {
    const lists = await history();
    tell(lists);
    expect(lists.faults()).not.toEqual([]);
  });
});
