/** From before a request was sent to after its response arrived, on one clock. Milliseconds. */
export interface Interval {
  readonly startMs: number;
  readonly endMs: number;
}

/** The changes of an order's life, in this order: it is inserted, leaves `pending` once at most, and is deleted. */
export type Change = 'inserted' | 'cancelled' | 'shipped' | 'deleted';

/** `unshipped`: pending or cancelled, which the list does not distinguish. */
export type ObservedState = 'absent' | 'pending' | 'unshipped' | 'cancelled' | 'shipped';

/** The phases of an order's life. It is in phase 0 before it is inserted, and skips one when it is deleted while pending. */
const [PENDING, LEFT, DELETED] = [1, 2, 3];
const PHASE_AFTER = { inserted: PENDING, cancelled: LEFT, shipped: LEFT, deleted: DELETED } as const;

interface OrderRecord {
  readonly confirmed: { readonly change: Change; readonly when: Interval }[];
  /** When changes were requested that got no response: each happened at any later time, or never. */
  readonly uncertain: { readonly change: Change; readonly startMs: number }[];
  readonly observations: { readonly state: ObservedState; readonly when: Interval }[];
}

/** At some moment of the interval, the order was in one of the phases from the first to the last. */
interface Sighting {
  readonly first: number;
  readonly last: number;
  readonly when: Interval;
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
    return [...this.#records]
      .filter(([, record]) => !isPossible(record))
      .map(([id, record]) => `order ${id} cannot have had this history: ${JSON.stringify(record)}`);
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

function isPossible(record: OrderRecord): boolean {
  const phases = record.confirmed.map(({ change }) => PHASE_AFTER[change]);
  const departures = new Set(
    [...record.confirmed.map(({ change }) => change), ...record.observations.map(({ state }) => state)].filter(
      (each) => each === 'cancelled' || each === 'shipped',
    ),
  );
  return (
    new Set(phases).size === phases.length && departures.size <= 1 && isMonotonic(sightingsOf(record, ...departures))
  );
}

/** @param departure how the order left `pending`, if a response says so */
function sightingsOf(record: OrderRecord, departure?: 'cancelled' | 'shipped'): Sighting[] {
  const requestedMs = (change: Change): number =>
    Math.min(
      ...record.confirmed.filter((each) => each.change === change).map(({ when }) => when.startMs),
      ...record.uncertain.filter((each) => each.change === change).map(({ startMs }) => startMs),
    );
  const insertedMs = record.confirmed.find(({ change }) => change === 'inserted')?.when.endMs ?? Infinity;
  const phasesOf = (state: ObservedState, { startMs, endMs }: Interval): [first: number, last: number] => {
    switch (state) {
      case 'absent':
        return [insertedMs < startMs ? DELETED : 0, endMs < requestedMs('deleted') ? 0 : DELETED];
      case 'pending':
        return [PENDING, PENDING];
      case 'unshipped':
        return [PENDING, departure === 'shipped' ? PENDING : LEFT];
      case 'cancelled':
      case 'shipped':
        return [LEFT, LEFT];
    }
  };
  const sightings = record.observations.map(({ state, when }) => {
    const [first, last] = phasesOf(state, when);
    return { first, last, when };
  });
  for (const { change, when } of record.confirmed) {
    const phase = PHASE_AFTER[change];
    sightings.push({ first: phase === PENDING ? 0 : PENDING, last: phase - 1, when });
    sightings.push({ first: phase, last: DELETED, when });
  }
  // Nothing happens before it is requested. `Math.min()` of nothing is Infinity.
  for (const change of ['inserted', ...(departure === undefined ? [] : [departure]), 'deleted'] as const) {
    const ms = requestedMs(change);
    sightings.push({ first: 0, last: PHASE_AFTER[change] - 1, when: { startMs: ms, endMs: ms } });
  }
  return sightings;
}

/** Whether the phase of no sighting must be earlier than one that was reached before the sighting began. */
function isMonotonic(sightings: readonly Sighting[]): boolean {
  const ended = sightings.toSorted((a, b) => a.when.endMs - b.when.endMs);
  let [reached, next] = [0, 0];
  return sightings
    .toSorted((a, b) => a.when.startMs - b.when.startMs)
    .every(({ first, last, when }) => {
      for (; ended[next]!.when.endMs < when.startMs; next++) {
        reached = Math.max(reached, ended[next]!.first);
      }
      return Math.max(reached, first) <= last;
    });
}
