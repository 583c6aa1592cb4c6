import type pg from 'pg';
import { Ledger } from './ledger.js';
import { ListHistory } from './list-history.js';

const at = (startMs: number, endMs: number): { startMs: number; endMs: number } => ({ startMs, endMs });

describe('ListHistory.violations', () => {
  /** Two ledgers that have made two changes each, from 10 to 11 and from 20 to 21 ms. */
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
  /** The list after these numbers of changes of each ledger. */
  const list = (first: number, second: number): Row[] => [
    row(1_000_000, first + 1),
    ...Array.from({ length: first }, (_, index) => row(1_000_001 + index, index + 1)),
    row(2_000_000, second + 1),
    ...Array.from({ length: second }, (_, index) => row(2_000_001 + index, index + 1)),
    row(501_000_000, first + 1),
    row(502_000_000, second + 1),
  ];

  it('is empty for lists that show states which existed at the time', async () => {
    const lists = await history();
    lists.recordList(JSON.stringify(list(0, 0)), 'a', at(1, 2));
    lists.recordList(JSON.stringify(list(1, 0)), 'b', at(10, 11));
    lists.recordList(JSON.stringify(list(1, 1)), 'c', at(12, 13));
    lists.recordNotModified('c', at(14, 15));
    lists.recordList(JSON.stringify(list(2, 2)), 'd', at(30, 31));
    expect(lists.violations()).toEqual([]);
  });

  it.each<[string, (lists: ListHistory) => void]>([
    [
      'a list without one of the orders',
      (lists) => lists.recordList(JSON.stringify(list(1, 1).filter(({ id }) => id !== 1_000_001)), 'a', at(12, 13)),
    ],
    [
      'a list with duplicate orders',
      (lists) => lists.recordList(JSON.stringify(list(1, 1).flatMap((order) => [order, order])), 'a', at(12, 13)),
    ],
    [
      'a list that shows part of a transaction',
      (lists) =>
        lists.recordList(
          JSON.stringify(list(1, 1).map((order) => (order.id === 501_000_000 ? row(order.id, 1) : order))),
          'a',
          at(12, 13),
        ),
    ],
    [
      'a list that lacks a change committed before the request',
      (lists) => lists.recordList(JSON.stringify(list(1, 1)), 'a', at(30, 31)),
    ],
    [
      'a list that shows a change started after the response',
      (lists) => lists.recordList(JSON.stringify(list(2, 1)), 'a', at(12, 13)),
    ],
    ['a truncated list', (lists) => lists.recordList(JSON.stringify(list(1, 1)).slice(0, -9), 'a', at(12, 13))],
    [
      'two lists that disagree on the order of two changes',
      (lists) => {
        lists.recordList(JSON.stringify(list(1, 0)), 'a', at(10, 11));
        lists.recordList(JSON.stringify(list(0, 1)), 'b', at(10, 11));
      },
    ],
    [
      'one tag for two different lists',
      (lists) => {
        lists.recordList(JSON.stringify(list(0, 0)), 'a', at(10, 11));
        lists.recordList(JSON.stringify(list(1, 1)), 'a', at(10, 11));
      },
    ],
    [
      'a 304 for a list that has changed',
      (lists) => {
        lists.recordList(JSON.stringify(list(1, 1)), 'a', at(12, 13));
        lists.recordNotModified('a', at(30, 31));
      },
    ],
  ])('reports %s', async (_what, record) => {
    const lists = await history();
    record(lists);
    expect(lists.violations()).not.toEqual([]);
  });
});
