import { Counter, type Registry } from 'prom-client';

export interface TalliedCounterOptions {
  readonly name: string;
  readonly help: string;
  /** One or two. */
  readonly labelNames: string[];
  readonly registry: Registry;
}

interface Tally {
  /** The values, in the order of the names. */
  readonly labels: string[];
  count: number;
}

/**
 * A counter with labels for what every request does. A counter of prom-client itself checks, sorts and joins the labels at
 * each count; this one does when somebody looks.
 */
export class LazyCounter {
  readonly #tallies = new Map<string, Tally>();

  constructor({ name, help, labelNames, registry }: TalliedCounterOptions) {
    const tallies = this.#tallies;
    new Counter({
      name,
      help,
      labelNames,
      registers: [registry],
      collect() {
        this.reset();
        for (const { labels, count } of tallies.values()) {
          this.labels(...labels).inc(count);
        }
      },
    });
  }

  /** Counts one. The values of the labels come from a small set: each new pair is remembered for ever. */
  count(first: string, second?: string): void {
    const key = second === undefined ? first : `${first} ${second}`;
    const tally = this.#tallies.get(key);
    if (tally === undefined) {
      this.#tallies.set(key, { labels: second === undefined ? [first] : [first, second], count: 1 });
    } else {
      tally.count++;
    }
  }
}
