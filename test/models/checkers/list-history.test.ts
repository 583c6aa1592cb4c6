import type pg from 'pg';
import { Ledger, type ListedOrder } from './ledger.js';
import { ListHistory } from './list-history.js';
import { replaceMonotonicClock } from '../../helpers/monotonic-clock.js';

describe('ListHistory.violations', () => {
  /** Two ledgers that have made two changes each, from 10 to 11 and from 20 to 21 ms. */
  async function history(): Promise<ListHistory> {
    const ledgers = [1, 2].map((number) => new Ledger(number, acceptingAll()));
    const times = [10, 11, 10, 11, 20, 21, 20, 21];
    replaceMonotonicClock(() => times.shift()!);
    for (const ledger of [...ledgers, ...ledgers]) {
      await ledger.change(() => false);
    }
    return new ListHistory(ledgers);
  }

  function acceptingAll(): pg.Pool {
    const client = { query: () => Promise.resolve({ rows: [] }), release: () => undefined };
    return { connect: () => Promise.resolve(client) } as unknown as pg.Pool;
  }

  const row = (id: number, quantity: number): ListedOrder => ({ id, quantity, complete: false });
  /** The list after these numbers of changes of each ledger. */
  const list = (first: number, second: number): ListedOrder[] => [
    row(1_000_000, first + 1),
    ...Array.from({ length: first }, (_, index) => row(1_000_001 + index, index + 1)),
    row(2_000_000, second + 1),
    ...Array.from({ length: second }, (_, index) => row(2_000_001 + index, index + 1)),
    row(501_000_000, first + 1),
    row(502_000_000, second + 1),
  ];

  /** What a client got, a 304 without a list, from one millisecond to another. */
  type Response = [tag: string, startMs: number, endMs: number, list?: ListedOrder[] | string];

  async function violationsOf(responses: readonly Response[]): Promise<string[]> {
    const lists = await history();
    for (const [tag, startMs, endMs, body] of responses) {
      if (body === undefined) {
        lists.recordNotModified(tag, { startMs, endMs });
      } else {
        lists.recordList(typeof body === 'string' ? body : JSON.stringify(body), tag, { startMs, endMs });
      }
    }
    return lists.violations();
  }

  it('is empty for lists that show states which existed at the time', async () => {
    const responses: Response[] = [
      ['a', 1, 2, list(0, 0)],
      ['b', 10, 11, list(1, 0)],
      ['c', 12, 13, list(1, 1)],
      ['c', 14, 15],
      ['d', 30, 31, list(2, 2)],
    ];
    expect(await violationsOf(responses)).toEqual([]);
  });

  const incomplete = list(1, 1).filter(({ id }) => id !== 1_000_001);
  const doubled = list(1, 1).flatMap((order) => [order, order]);
  const halfway = list(1, 1).map((order) => (order.id === 501_000_000 ? row(order.id, 1) : order));
  it.each<[what: string, ...responses: Response[]]>([
    ['a list without one of the orders', ['a', 12, 13, incomplete]],
    ['a list with duplicate orders', ['a', 12, 13, doubled]],
    ['a list that shows part of a transaction', ['a', 12, 13, halfway]],
    ['a list that lacks a change committed before the request', ['a', 30, 31, list(1, 1)]],
    ['a list that shows a change started after the response', ['a', 12, 13, list(2, 1)]],
    ['a truncated list', ['a', 12, 13, JSON.stringify(list(1, 1)).slice(0, -9)]],
    ['two lists that disagree on the order of two changes', ['a', 10, 11, list(1, 0)], ['b', 10, 11, list(0, 1)]],
    ['one tag for two different lists', ['a', 10, 11, list(0, 0)], ['a', 10, 11, list(1, 1)]],
    ['a 304 for a list that has changed', ['a', 12, 13, list(1, 1)], ['a', 30, 31]],
  ])('reports %s', async (_what, ...responses) => {
    expect(await violationsOf(responses)).not.toEqual([]);
  });
});
