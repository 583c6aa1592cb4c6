import { createHash } from 'node:crypto';
import type { Interval } from './order-history.js';
import type { Ledger, ListedOrder } from './ledger.js';

interface ObservedList {
  readonly when: Interval;
  readonly etag: string | undefined;
  /** Number of changes of each ledger that the list shows. */
  readonly changes: readonly number[];
}

/**
 * Records the lists that clients received and checks that each shows a state that existed: the rows of every ledger are
 * those after some number of its changes, with every change committed before the request and none started after the
 * response; any two lists agree on the order of changes; and equal entity tags mean equal bytes.
 */
export class ListHistory {
  readonly #lists: ObservedList[] = [];
  readonly #violations: string[] = [];
  readonly #byTag = new Map<string, { readonly digest: string; readonly changes: readonly number[] }>();

  constructor(private readonly ledgers: readonly Ledger[]) {}

  /** @returns the orders by id; undefined when the body is not JSON */
  recordList(body: string, etag: string | undefined, when: Interval): ReadonlyMap<string, ListedOrder> | undefined {
    const orders = this.#parse(body);
    if (orders === undefined) {
      return undefined;
    }
    const changes = this.ledgers.map((ledger) => {
      const shown = ledger.changesShownBy(orders);
      if (shown === undefined) {
        this.#violations.push(
          `a list shows ledger ${ledger.number} in a state that never existed: ${ledger.describe(orders)}`,
        );
      }
      return shown ?? Number.NaN;
    });
    if (etag !== undefined) {
      this.#checkTag(etag, body, changes);
    }
    this.#record({ when, etag, changes });
    return orders;
  }

  /** Records a 304: the list with this tag is the current one. */
  recordNotModified(etag: string, when: Interval): void {
    const known = this.#byTag.get(etag);
    if (known === undefined) {
      this.#violations.push(`304 for the tag ${etag}, which no client received`);
    } else {
      this.#record({ when, etag, changes: known.changes });
    }
  }

  violations(): string[] {
    return [...this.#violations, ...this.#orderViolations()];
  }

  #parse(body: string): Map<string, ListedOrder> | undefined {
    let list: ListedOrder[];
    try {
      list = JSON.parse(body) as ListedOrder[];
    } catch {
      this.#violations.push(`a list is not JSON: …${body.slice(-200)}`);
      return undefined;
    }
    for (const [index, order] of list.entries()) {
      if (index > 0 && order.id <= list[index - 1]!.id) {
        this.#violations.push(`order ${order.id} is listed after ${list[index - 1]!.id}`);
      }
    }
    return new Map(list.map((order) => [String(order.id), order]));
  }

  #checkTag(etag: string, body: string, changes: readonly number[]): void {
    const digest = createHash('sha256').update(body).digest('hex');
    if ((this.#byTag.get(etag)?.digest ?? digest) !== digest) {
      this.#violations.push(`two different lists have the tag ${etag}`);
    }
    this.#byTag.set(etag, { digest, changes });
  }

  #record(list: ObservedList): void {
    for (const [index, ledger] of this.ledgers.entries()) {
      const changes = list.changes[index]!;
      const [least, most] = [ledger.committedBefore(list.when.startMs), ledger.startedBefore(list.when.endMs)];
      if (changes < least || changes > most) {
        this.#violations.push(
          `a list shows ${changes} changes of ledger ${ledger.number}, expected ${least} to ${most} at that time`,
        );
      }
    }
    this.#lists.push(list);
  }

  /** Of any two lists, one includes all changes that the other one shows. */
  #orderViolations(): string[] {
    const total = ({ changes }: ObservedList): number => changes.reduce((sum, count) => sum + count, 0);
    const ordered = [...this.#lists].sort((a, b) => total(a) - total(b));
    return ordered.flatMap((later, index) => {
      const earlier = ordered[index - 1];
      return earlier === undefined || earlier.changes.every((count, ledger) => count <= later.changes[ledger]!)
        ? []
        : [`no order of changes shows both ${JSON.stringify(earlier)} and ${JSON.stringify(later)}`];
    });
  }
}
