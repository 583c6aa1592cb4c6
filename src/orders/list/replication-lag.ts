/** Positions are noted at intervals of at least this share of the lag, so that a day takes a thousand of them. */
const RESOLUTION = 0.01;

/**
 * How long ago the primary wrote the first thing that the standby has not replayed. Unlike the timestamp of the last replayed
 * transaction, this does not grow while the primary is idle, and does grow while the standby is disconnected.
 */
export class ReplicationLag {
  /** Positions of the primary that the standby has not reached, the oldest first, and when they were read. */
  #ahead: { readonly position: number; readonly at: number }[] = [];

  /**
   * @param now milliseconds of a monotonic clock
   * @param written the primary's position in the write-ahead log; undefined when it is unknown
   * @param replayed the standby's position
   * @returns the lag; milliseconds
   */
  observe(now: number, written: number | undefined, replayed: number | undefined): number {
    const last = this.#ahead.at(-1);
    if (
      written !== undefined &&
      (last === undefined || (written > last.position && now - last.at >= this.#lag(now) * RESOLUTION))
    ) {
      this.#ahead.push({ position: written, at: now });
    }
    if (replayed !== undefined) {
      this.#ahead = this.#ahead.filter(({ position }) => position > replayed);
    }
    return this.#lag(now);
  }

  #lag(now: number): number {
    return now - (this.#ahead[0]?.at ?? now);
  }
}
