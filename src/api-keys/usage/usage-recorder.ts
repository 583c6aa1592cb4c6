import { Inject, Injectable } from '@nestjs/common';
import { CLOCK, type Clock } from '../../common/clock.js';
import { Metrics } from '../../metrics/metrics.js';
import type { UsageCounts } from './usage-counts.js';

/** Keys whose counts are held while they cannot be written, about 200 bytes each. Further keys are not counted. */
export const UNWRITTEN_MAX = 100_000;

const DAY_MS = 86_400_000;

/** Counts that do not change any more. Written again under the same number, a batch is still counted once. */
export interface UsageBatch {
  readonly number: number;
  readonly counts: ReadonlyMap<string, UsageCounts>;
  /** The middle of the time in which it was counted, all on one UTC day. Unix milliseconds. */
  readonly countedAtMs: number;
}

/** Counts what each key does, in memory and on the request path. {@link UsageWriter} writes the counts. */
@Injectable()
export class UsageRecorder {
  readonly #sealed: UsageBatch[] = [];
  #open = new Map<string, UsageCounts>();
  #openedAtMs: number;
  #dayEndsAtMs: number;
  #batches = 0;
  #unwritten = 0;

  constructor(
    @Inject(CLOCK) private readonly clock: Clock,
    private readonly metrics: Metrics,
  ) {
    this.#openedAtMs = clock.now();
    this.#dayEndsAtMs = endOfDay(this.#openedAtMs);
    metrics.watchUnflushedUsage(() => this.#unwritten);
  }

  /** Counts a decision of the limiter. */
  decided(keyId: string, outcome: 'admitted' | 'limited' | 'banned'): void {
    const counts = this.#countsOf(keyId);
    if (counts === undefined) {
      this.metrics.usageLost.inc();
    } else if (outcome === 'admitted') {
      counts.admitted++;
    } else if (outcome === 'limited') {
      counts.rejected++;
    } else {
      counts.banned++;
    }
  }

  /** Counts a list that was sent, or lost after these bytes. */
  listed(keyId: string, bytes: number): void {
    const counts = this.#countsOf(keyId);
    if (counts !== undefined) {
      counts.lists++;
      counts.listBytes += bytes;
    }
  }

  /** Counts a cancelled order. */
  cancelled(keyId: string): void {
    const counts = this.#countsOf(keyId);
    if (counts !== undefined) {
      counts.cancels++;
    }
  }

  /** The oldest batch that is not written; seals the current counts when there is no older one. */
  nextBatch(): UsageBatch | undefined {
    if (this.#sealed.length === 0 && this.#open.size > 0) {
      this.#seal(this.clock.now());
    }
    return this.#sealed[0];
  }

  /** Drops the oldest batch, which is written. */
  written(): void {
    this.#unwritten -= this.#sealed.shift()?.counts.size ?? 0;
  }

  /** The requests whose counts are not written. */
  unwrittenRequests(): number {
    return [...this.#sealed.map(({ counts }) => counts), this.#open]
      .flatMap((counts) => [...counts.values()])
      .reduce((sum, { admitted, rejected, banned }) => sum + admitted + rejected + banned, 0);
  }

  #countsOf(keyId: string): UsageCounts | undefined {
    const nowMs = this.clock.now();
    if (nowMs >= this.#dayEndsAtMs) {
      this.#startDay(nowMs);
    }
    return this.#open.get(keyId) ?? this.#add(keyId);
  }

  #add(keyId: string): UsageCounts | undefined {
    if (this.#unwritten === UNWRITTEN_MAX) {
      return undefined;
    }
    this.#unwritten++;
    const counts: UsageCounts = { admitted: 0, rejected: 0, banned: 0, lists: 0, cancels: 0, listBytes: 0 };
    this.#open.set(keyId, counts);
    return counts;
  }

  #startDay(nowMs: number): void {
    if (this.#open.size > 0) {
      this.#seal(this.#dayEndsAtMs);
    }
    this.#openedAtMs = nowMs;
    this.#dayEndsAtMs = endOfDay(nowMs);
  }

  #seal(nowMs: number): void {
    const countedAtMs = (this.#openedAtMs + nowMs) / 2;
    this.#sealed.push({ number: ++this.#batches, counts: this.#open, countedAtMs });
    this.#open = new Map();
    this.#openedAtMs = nowMs;
  }
}

function endOfDay(timeMs: number): number {
  return (Math.floor(timeMs / DAY_MS) + 1) * DAY_MS;
}
