import { median } from './statistics.mjs';

/** The measured values by name and contestant. One failure makes its whole series invalid. */
export class Results {
  #series = new Map();

  record(name, contestant, value) {
    this.#of(name, contestant).values.push(value);
  }

  fail(name, contestant, reason) {
    this.#of(name, contestant).failures.push(reason);
  }

  /** @returns {{value?: number, failure?: string} | undefined} undefined when it was not measured */
  get(name, contestant) {
    const series = this.#series.get(`${name} | ${contestant.name}`);
    if (series === undefined) {
      return undefined;
    }
    return series.failures.length > 0 ? { failure: series.failures[0] } : { value: median(series.values) };
  }

  /** Every series with its values in the order of the rounds. */
  toJSON() {
    return Object.fromEntries(this.#series);
  }

  #of(name, contestant) {
    const key = `${name} | ${contestant.name}`;
    let series = this.#series.get(key);
    if (series === undefined) {
      series = { values: [], failures: [] };
      this.#series.set(key, series);
    }
    return series;
  }
}
