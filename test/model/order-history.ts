/** From before something was asked to after it was answered, by one clock. Milliseconds. */
export interface Interval {
  readonly startMs: number;
  readonly endMs: number;
}

/** The four things that can happen to an order. It goes one way: into the world, out of `pending`, out of the world. */
export type Change = 'inserted' | 'cancelled' | 'shipped' | 'deleted';

/** What somebody was told of an order. `unshipped`: pending or cancelled, which the list does not tell apart. */
export type Sight = 'absent' | 'pending' | 'unshipped' | 'cancelled' | 'shipped';

const INSERTED = 1;
const LEFT = 2;
const DELETED = 3;
const CHANGE_NUMBER = { inserted: INSERTED, cancelled: LEFT, shipped: LEFT, deleted: DELETED } as const;

interface Told {
  readonly sight: Sight;
  readonly when: Interval;
}

interface Life {
  readonly done: { readonly change: Change; readonly when: Interval }[];
  /** Changes that were asked for and never answered: each happened at any time since, or never. */
  readonly perhaps: { readonly change: Change; readonly startMs: number }[];
  readonly told: Told[];
}

/**
 * What was done to orders and what was said of them, and whether the two can be true together: whether there is for each
 * order one course of events in which every answer was right at some moment between question and answer
 * (linearizability), and in which it left `pending` at most once.
 */
export class OrderHistory {
  readonly #lives = new Map<string, Life>();

  get orders(): Iterable<string> {
    return this.#lives.keys();
  }

  /** Somebody was told that this change was made by them. */
  changed(id: string, change: Change, when: Interval): void {
    this.#life(id).done.push({ change, when });
  }

  /** Somebody asked for this change and was not told what became of it. */
  mayHaveChanged(id: string, change: Change, startMs: number): void {
    this.#life(id).perhaps.push({ change, startMs });
  }

  saw(id: string, sight: Sight, when: Interval): void {
    this.#life(id).told.push({ sight, when });
  }

  /** @returns a sentence for each order whose answers cannot all be true; none when all is well */
  faults(): string[] {
    return [...this.#lives].flatMap(([id, life]) => {
      const fault = faultOf(life);
      return fault === undefined ? [] : [`order ${id}: ${fault} (${JSON.stringify(life)})`];
    });
  }

  #life(id: string): Life {
    const known = this.#lives.get(id);
    if (known !== undefined) {
      return known;
    }
    const life: Life = { done: [], perhaps: [], told: [] };
    this.#lives.set(id, life);
    return life;
  }
}

function faultOf(life: Life): string | undefined {
  const leavings = life.done.filter(({ change }) => CHANGE_NUMBER[change] === LEFT);
  if (leavings.length > 1) {
    return `left pending ${leavings.length} times`;
  }
  if (life.done.filter(({ change }) => change === 'deleted').length > 1) {
    return 'was deleted twice';
  }
  const left = leavings[0]?.change ?? stateThatWasSeen(life);
  if (left === 'both') {
    return 'was seen cancelled and shipped';
  }
  const windows = ([undefined, 'inserted', left, 'deleted'] as const).map((change) => windowOf(life, change));
  for (const { sight, when } of life.told) {
    const phases = phasesThatShow(sight, left, when, windows);
    if (phases === undefined) {
      return `was seen ${sight}, which nobody can have made it`;
    }
    // Seen in the first of these phases or later, and not after the last: the changes before had happened by the end of
    // the question, those after had not happened at its start.
    for (let number = INSERTED; number <= DELETED; number++) {
      const window = windows[number]!;
      if (number <= phases.first) {
        window.latestMs = Math.min(window.latestMs, when.endMs);
      } else if (number > phases.last) {
        window.earliestMs = Math.max(window.earliestMs, when.startMs);
      }
    }
  }
  // An order can be deleted without having left `pending`.
  return faultOfOrder(windows, left === undefined ? [INSERTED, DELETED] : [INSERTED, LEFT, DELETED]);
}

/** When a change can have happened. */
interface Window {
  earliestMs: number;
  latestMs: number;
}

function windowOf(life: Life, change: Change | undefined): Window {
  const done = life.done.find((each) => each.change === change);
  if (done !== undefined) {
    return { earliestMs: done.when.startMs, latestMs: done.when.endMs };
  }
  const starts = life.perhaps.filter((each) => each.change === change).map(({ startMs }) => startMs);
  // Nobody asked for it: never, which is later than everything.
  return { earliestMs: Math.min(...starts), latestMs: Infinity };
}

/** How an order left `pending` for which nobody was told that it was their doing. */
function stateThatWasSeen(life: Life): 'cancelled' | 'shipped' | 'both' | undefined {
  const seen = new Set(life.told.map(({ sight }) => sight));
  if (seen.has('cancelled') && seen.has('shipped')) {
    return 'both';
  }
  return seen.has('cancelled') ? 'cancelled' : seen.has('shipped') ? 'shipped' : undefined;
}

function phasesThatShow(
  sight: Sight,
  left: Change | undefined,
  when: Interval,
  windows: readonly Window[],
): { first: number; last: number } | undefined {
  switch (sight) {
    case 'absent':
      // Not yet there or no longer there; where both are possible, this sight says nothing.
      if (when.startMs > windows[INSERTED]!.latestMs) {
        return { first: DELETED, last: DELETED };
      }
      return when.endMs < windows[DELETED]!.earliestMs ? { first: 0, last: 0 } : { first: 0, last: DELETED };
    case 'pending':
      return { first: INSERTED, last: INSERTED };
    case 'unshipped':
      return { first: INSERTED, last: left === 'shipped' ? INSERTED : LEFT };
    case 'cancelled':
    case 'shipped':
      return left === sight ? { first: LEFT, last: LEFT } : undefined;
  }
}

function faultOfOrder(windows: readonly Window[], changes: readonly number[]): string | undefined {
  let earliestMs = -Infinity;
  for (const [index, number] of changes.entries()) {
    earliestMs = Math.max(earliestMs, windows[number]!.earliestMs);
    const latestMs = Math.min(...changes.slice(index).map((later) => windows[later]!.latestMs));
    if (earliestMs > latestMs) {
      return `change ${number} of its life cannot lie both after ${earliestMs} and before ${latestMs}`;
    }
  }
  return undefined;
}
