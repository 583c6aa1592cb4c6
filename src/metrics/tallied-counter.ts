import { Counter, type Registry } from 'prom-client';

export interface TalliedCounterOptions {
  readonly name: string;
  readonly help: string;
  /** One or two. */
  readonly labelNames: readonly [first: string, second?: string];
  readonly registry: Registry;
}

interface Tally {
  readonly labels: Readonly<Record<string, string>>;
  count: number;
}

/**
 * A counter with labels for what every request does. A counter of prom-client itself checks, sorts and joins the labels at
 * each count; this one does when somebody looks.
 */
export class TalliedCounter {
  readonly #labelNames: TalliedCounterOptions['labelNames'];
  readonly #tallies = new Map<string, Tally>();

  constructor({ name, help, labelNames, registry }: TalliedCounterOptions) {
    this.#labelNames = labelNames;
    const tallies = this.#tallies;
    new Counter({
      name,
      help,
      labelNames: labelNames.filter((label) => label !== undefined),
      registers: [registry],
      collect() {
        this.reset();
        for (const { labels, count } of tallies.values()) {
          this.inc(labels, count);
        }
      },
    });
  }

  /** Counts one. The values of the labels come from a small set: each new pair is remembered for ever. */
  count(first: string, second = ''): void {
    const key = second === '' ? first : `${first} ${second}`;
    const tally = this.#tallies.get(key);
    if (tally === undefined) {
      this.#tallies.set(key, { labels: this.#labelsOf(first, second), count: 1 });
    } else {
      tally.count++;
    }
  }

  #labelsOf(first: string, second: string): Record<string, string> {
    const [firstName, secondName] = this.#labelNames;
    return { [firstName]: first, ...(secondName === undefined ? {} : { [secondName]: second }) };
  }
}
