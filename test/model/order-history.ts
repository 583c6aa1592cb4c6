/** From before a request was sent to after its response arrived, on one clock. Milliseconds. */
export interface Interval {
  readonly startMs: number;
  readonly endMs: number;
}

/** The changes of an order's life, in this order: it is inserted, leaves `pending` once at most, and is deleted. */
export type Change = 'inserted' | 'cancelled' | 'shipped' | 'deleted';

/** `unshipped`: pending or cancelled, which the list does not distinguish. */
export type ObservedState = 'absent' | 'pending' | 'unshipped' | 'cancelled' | 'shipped';

const INSERTED = 1;
const LEFT_PENDING = 2;
const DELETED = 3;
const CHANGE_NUMBER = {
  inserted: INSERTED,
  cancelled: LEFT_PENDING,
  shipped: LEFT_PENDING,
  deleted: DELETED,
} as const;

interface OrderRecord {
  readonly confirmed: { readonly change: Change; readonly when: Interval }[];
  /** Changes that were requested without a response: each happened at any later time, or never. */
  readonly uncertain: { readonly change: Change; readonly startMs: number }[];
  readonly observations: { readonly state: ObservedState; readonly when: Interval }[];
}

/**
 * Records the changes and observed states of orders, and checks that they are linearizable: that for each order there is a
 * sequence of changes in which every response was true at some moment between request and response, and in which the order
 * left `pending` at most once.
 */
export class OrderHistory {
  readonly #records = new Map<string, OrderRecord>();

  get orders(): Iterable<string> {
    return this.#records.keys();
  }

  recordChange(id: string, change: Change, when: Interval): void {
    this.#recordOf(id).confirmed.push({ change, when });
  }

  /** Records a change that was requested without a response. */
  recordUncertainChange(id: string, change: Change, startMs: number): void {
    this.#recordOf(id).uncertain.push({ change, startMs });
  }

  recordState(id: string, state: ObservedState, when: Interval): void {
    this.#recordOf(id).observations.push({ state, when });
  }

  /** @returns one message for each order whose record is impossible */
  violations(): string[] {
    return [...this.#records].flatMap(([id, record]) => {
      const violation = violationIn(record);
      return violation === undefined ? [] : [`order ${id} ${violation} (${JSON.stringify(record)})`];
    });
  }

  #recordOf(id: string): OrderRecord {
    let record = this.#records.get(id);
    if (record === undefined) {
      record = { confirmed: [], uncertain: [], observations: [] };
      this.#records.set(id, record);
    }
    return record;
  }
}

function violationIn(record: OrderRecord): string | undefined {
  const departures = record.confirmed.filter(({ change }) => CHANGE_NUMBER[change] === LEFT_PENDING);
  if (departures.length > 1) {
    return `left pending ${departures.length} times`;
  }
  if (record.confirmed.filter(({ change }) => change === 'deleted').length > 1) {
    return 'was deleted twice';
  }
  const departure = departures[0]?.change ?? observedDeparture(record);
  if (departure === 'both') {
    return 'was observed as cancelled and as shipped';
  }
  const windows = ([undefined, 'inserted', departure, 'deleted'] as const).map((change) => windowOf(record, change));
  for (const { state, when } of record.observations) {
    const phases = phasesShowing(state, departure, when, windows);
    if (phases === undefined) {
      return `was observed as ${state} without a change to that state`;
    }
    // The changes up to the first phase had happened by the end of the observation; those after the last phase had not
    // happened at its start.
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
  return sequenceViolation(windows, departure === undefined ? [INSERTED, DELETED] : [INSERTED, LEFT_PENDING, DELETED]);
}

/** When a change can have happened. */
interface Window {
  earliestMs: number;
  latestMs: number;
}

function windowOf(record: OrderRecord, change: Change | undefined): Window {
  const confirmed = record.confirmed.find((each) => each.change === change);
  if (confirmed !== undefined) {
    return { earliestMs: confirmed.when.startMs, latestMs: confirmed.when.endMs };
  }
  const starts = record.uncertain.filter((each) => each.change === change).map(({ startMs }) => startMs);
  // Never requested: `Math.min()` is Infinity.
  return { earliestMs: Math.min(...starts), latestMs: Infinity };
}

/** How an order left `pending` according to its observations, when no response confirmed the change. */
function observedDeparture({ observations }: OrderRecord): 'cancelled' | 'shipped' | 'both' | undefined {
  const seen = new Set(observations.map(({ state }) => state));
  if (seen.has('cancelled') && seen.has('shipped')) {
    return 'both';
  }
  return seen.has('cancelled') ? 'cancelled' : seen.has('shipped') ? 'shipped' : undefined;
}

/** Phase n follows change n; phase 0 precedes the insertion. */
function phasesShowing(
  state: ObservedState,
  departure: Change | undefined,
  when: Interval,
  windows: readonly Window[],
): { first: number; last: number } | undefined {
  switch (state) {
    case 'absent':
      // Not inserted yet or already deleted; when both are possible, the observation constrains nothing.
      if (when.startMs > windows[INSERTED]!.latestMs) {
        return { first: DELETED, last: DELETED };
      }
      return when.endMs < windows[DELETED]!.earliestMs ? { first: 0, last: 0 } : { first: 0, last: DELETED };
    case 'pending':
      return { first: INSERTED, last: INSERTED };
    case 'unshipped':
      return { first: INSERTED, last: departure === 'shipped' ? INSERTED : LEFT_PENDING };
    case 'cancelled':
    case 'shipped':
      return departure === state ? { first: LEFT_PENDING, last: LEFT_PENDING } : undefined;
  }
}

function sequenceViolation(windows: readonly Window[], changes: readonly number[]): string | undefined {
  let earliestMs = -Infinity;
  for (const [index, number] of changes.entries()) {
    earliestMs = Math.max(earliestMs, windows[number]!.earliestMs);
    const latestMs = Math.min(...changes.slice(index).map((later) => windows[later]!.latestMs));
    if (earliestMs > latestMs) {
      return `cannot have undergone change ${number} both after ${earliestMs} and before ${latestMs}`;
    }
  }
  return undefined;
}
