import { Inject, Injectable } from '@nestjs/common';
import { CLOCK, type Clock } from '../../common/clock.js';
import { Metrics } from '../../metrics/metrics.js';

/** What a key did. Integers. */
export interface UsageCounts {
  /** Decisions of the limiter: admitted, over a limit, and during a ban. */
  admitted: number;
  rejected: number;
  banned: number;
  /** Responses 200 and 304 to GET of the list. */
  lists: number;
  /** Orders cancelled. */
  cancels: number;
  /** Bytes of list bodies as they were sent, after compression. */
  listBytes: number;
}

export const NO_USAGE: Readonly<UsageCounts> = {
  admitted: 0,
  rejected: 0,
  banned: 0,
  lists: 0,
  cancels: 0,
  listBytes: 0,
};

const COUNTS = Object.keys(NO_USAGE) as (keyof UsageCounts)[];

/** Rows that are held while they cannot be written, about 300 bytes each. Further keys are not counted. */
export const ROWS_MAX = 100_000;

const DAY_MS = 86_400_000;

/** What a key did on one day. */
export interface UsageRow extends UsageCounts {
  readonly keyId: string;
  /** Days since the Unix epoch by the clock of this process. */
  readonly day: number;
}

/** Counts what each key does, in memory and on the request path. {@link UsageWriter} writes the counts. */
@Injectable()
export class UsageRecorder {
  /** By day and key. */
  readonly #rows = new Map<string, UsageRow>();

  constructor(
    @Inject(CLOCK) private readonly clock: Clock,
    private readonly metrics: Metrics,
  ) {
    metrics.watch('unflushedUsage', () => this.#rows.size);
  }

  /** Today, as {@link UsageRow.day} has it. */
  today(): number {
    return Math.floor(this.clock.now() / DAY_MS);
  }

  /** Adds to what a key did, by default today. */
  add(keyId: string, counts: Partial<UsageCounts>, day = this.today()): void {
    const id = `${day} ${keyId}`;
    let row = this.#rows.get(id);
    if (row === undefined) {
      if (this.#rows.size === ROWS_MAX) {
        this.metrics.usageLost.inc(requestsIn(counts));
        return;
      }
      row = { keyId, day, ...NO_USAGE };
      this.#rows.set(id, row);
    }
    for (const count of COUNTS) {
      row[count] += counts[count] ?? 0;
    }
  }

  get isEmpty(): boolean {
    return this.#rows.size === 0;
  }

  /** Removes the rows, for the caller to write. */
  take(): UsageRow[] {
    const rows = [...this.#rows.values()];
    this.#rows.clear();
    return rows;
  }

  /** Adds rows that could not be written to what has been counted since. */
  giveBack(rows: readonly UsageRow[]): void {
    for (const row of rows) {
      this.add(row.keyId, row, row.day);
    }
  }
}

/** All requests that the limiter has decided about. */
export function requestsIn({ admitted = 0, rejected = 0, banned = 0 }: Partial<UsageCounts>): number {
  return admitted + rejected + banned;
}
