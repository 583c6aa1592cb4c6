import type { Clock } from '../../common/clock.js';
import type { Metrics } from '../../metrics/metrics.js';

/** The id under which requests without a valid key are counted: the nil UUID (RFC 9562 section 5.9). */
export const ANONYMOUS_ID = '00000000-0000-0000-0000-000000000000';

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

export const COUNTS = Object.keys(NO_USAGE) as (keyof UsageCounts)[];

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
export class UsageRecorder {
  /** By day and key. */
  readonly #rows = new Map<string, UsageRow>();

  constructor(
    private readonly clock: Clock,
    private readonly metrics: Metrics,
  ) {
    metrics.watch('unflushedUsage', () => this.#rows.size);
  }

  /** Today, as {@link UsageRow.day} has it. */
  today(): number {
    return Math.floor(this.clock.now() / DAY_MS);
  }

  /** Counts a decision of the limiter. */
  decided(keyId: string, outcome: 'admitted' | 'limited' | 'banned'): void {
    const row = this.#rowOf(keyId);
    if (row === undefined) {
      this.metrics.usageLost.inc();
    } else {
      row[outcome === 'limited' ? 'rejected' : outcome]++;
    }
  }

  /** Counts a list that was sent, or lost after these bytes. */
  listed(keyId: string, bytes: number): void {
    const row = this.#rowOf(keyId);
    if (row !== undefined) {
      row.lists++;
      row.listBytes += bytes;
    }
  }

  /** Counts a cancelled order. */
  cancelled(keyId: string): void {
    const row = this.#rowOf(keyId);
    if (row !== undefined) {
      row.cancels++;
    }
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
      const later = this.#rowOf(row.keyId, row.day);
      if (later === undefined) {
        this.metrics.usageLost.inc(row.admitted + row.rejected + row.banned);
      } else {
        for (const count of COUNTS) {
          later[count] += row[count];
        }
      }
    }
  }

  #rowOf(keyId: string, day = this.today()): UsageRow | undefined {
    const id = `${day} ${keyId}`;
    let row = this.#rows.get(id);
    if (row === undefined && this.#rows.size < ROWS_MAX) {
      row = { keyId, day, ...NO_USAGE };
      this.#rows.set(id, row);
    }
    return row;
  }
}
