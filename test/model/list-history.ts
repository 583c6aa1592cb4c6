import { createHash } from 'node:crypto';
import type { Interval } from './order-history.js';
import { type Ledger, type ListedOrder } from './ledger.js';

/** A list as a client got it. */
interface SeenList {
  readonly when: Interval;
  readonly etag: string;
  /** How many changes of each ledger it shows. */
  readonly cut: readonly number[];
}

/**
 * The lists that clients got, and whether each shows a state that existed: every ledger's rows exactly as after some
 * number of its changes, with nothing missing, doubled or half done; no change that was not yet asked for and all that
 * were committed before the question; and all lists in one order, so that no two of them disagree on which change came
 * first. Equal entity tags mean equal bytes.
 */
export class ListHistory {
  readonly #lists: SeenList[] = [];
  readonly #faults: string[] = [];
  readonly #digests = new Map<string, string>();
  readonly #cuts = new Map<string, readonly number[]>();

  constructor(private readonly ledgers: readonly Ledger[]) {}

  /** Lists seen so far. */
  get size(): number {
    return this.#lists.length;
  }

  /** @returns the orders of the list by id; undefined when the body is not even a list */
  saw(body: string, etag: string, when: Interval): ReadonlyMap<string, ListedOrder> | undefined {
    const orders = this.#parse(body);
    if (orders === undefined) {
      return undefined;
    }
    this.#checkTag(etag, body);
    const cut = this.ledgers.map((ledger) => {
      const changes = ledger.changesShownBy(orders);
      if (changes === undefined) {
        this.#faults.push(`a list shows ledger ${ledger.name} in a state that never was: ${ledger.describe(orders)}`);
      }
      return changes ?? Number.NaN;
    });
    this.#cuts.set(etag, cut);
    this.#place({ when, etag, cut });
    return orders;
  }

  /** A client was told that the list which it has under this tag is the current one. */
  sawUnchanged(etag: string, when: Interval): void {
    const cut = this.#cuts.get(etag);
    if (cut === undefined) {
      this.#faults.push(`a list with the tag ${etag} is unchanged, which nobody ever got`);
    } else {
      this.#place({ when, etag, cut });
    }
  }

  faults(): string[] {
    return [...this.#faults, ...this.#disorders()];
  }

  #parse(body: string): Map<string, ListedOrder> | undefined {
    let list: ListedOrder[];
    try {
      list = JSON.parse(body) as ListedOrder[];
    } catch {
      this.#faults.push(`a list that is no JSON: …${body.slice(-200)}`);
      return undefined;
    }
    for (const [index, order] of list.entries()) {
      if (index > 0 && order.id <= list[index - 1]!.id) {
        this.#faults.push(`order ${order.id} is listed after ${list[index - 1]!.id}`);
      }
    }
    return new Map(list.map((order) => [String(order.id), order]));
  }

  #checkTag(etag: string, body: string): void {
    const digest = createHash('sha256').update(body).digest('hex');
    if ((this.#digests.get(etag) ?? digest) !== digest) {
      this.#faults.push(`two different lists have the tag ${etag}`);
    }
    this.#digests.set(etag, digest);
  }

  #place(list: SeenList): void {
    for (const [index, ledger] of this.ledgers.entries()) {
      const changes = list.cut[index]!;
      const [least, most] = [ledger.committedBefore(list.when.startMs), ledger.begunBefore(list.when.endMs)];
      if (changes < least || changes > most) {
        this.#faults.push(
          `a list shows ${changes} changes of ledger ${ledger.name}, when there were at least ${least} and at most ${most}`,
        );
      }
    }
    this.#lists.push(list);
  }

  /** States of one database follow each other: of any two lists, one shows at least what the other one shows. */
  #disorders(): string[] {
    const total = ({ cut }: SeenList): number => cut.reduce((sum, changes) => sum + changes, 0);
    const ordered = [...this.#lists].sort((a, b) => total(a) - total(b));
    return ordered.flatMap((later, index) => {
      const earlier = ordered[index - 1];
      return earlier === undefined || earlier.cut.every((changes, ledger) => changes <= later.cut[ledger]!)
        ? []
        : [`no order of changes shows both ${JSON.stringify(earlier)} and ${JSON.stringify(later)}`];
    });
  }
}
