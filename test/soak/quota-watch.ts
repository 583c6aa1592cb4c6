import { requestRaw } from '../helpers/raw-http.js';

interface Minute {
  /** `Remaining` of each admitted request. */
  readonly remaining: number[];
  rejected: number;
  isSuspended: boolean;
}

/**
 * Sends requests over all services faster than a key's limit allows, and checks every minute: while Redis is available, no
 * more requests than the limit are admitted, and each gets a distinct `Remaining`. Without Redis each process counts
 * separately.
 */
export class QuotaWatch {
  readonly #minutes = new Map<number, Minute>();
  #stopped = false;
  #running: Promise<void> = Promise.resolve();

  /** @param perMinute the key's limit; its daily limit is out of reach */
  constructor(
    private readonly baseUrls: () => readonly string[],
    private readonly key: string,
    private readonly perMinute: number,
  ) {}

  start(): void {
    this.#running = this.#sendRequests();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  /** Excludes the current minute from the check. */
  suspendCheck(): void {
    this.#minuteOf(this.#currentReset()).isSuspended = true;
  }

  /** Checked minutes in which the limit was exhausted. */
  get exhaustedMinutes(): number {
    return [...this.#minutes.values()].filter(
      ({ remaining, rejected, isSuspended }) => !isSuspended && rejected > 0 && remaining.length > 0,
    ).length;
  }

  violations(): string[] {
    return [...this.#minutes].flatMap(([reset, { remaining, isSuspended }]) => {
      if (isSuspended) {
        return [];
      }
      return remaining.length > this.perMinute || new Set(remaining).size !== remaining.length
        ? [
            `limit ${this.perMinute}, but ${remaining.length} requests were admitted in the minute before ${reset}, with the remaining values ${remaining.join(' ')}`,
          ]
        : [];
    });
  }

  async #sendRequests(): Promise<void> {
    let number = 0;
    while (!this.#stopped) {
      const baseUrls = this.baseUrls();
      const batch = Array.from({ length: 6 }, () =>
        requestRaw(baseUrls[number++ % baseUrls.length]!, { path: '/nowhere', key: this.key }),
      );
      for (const response of await Promise.allSettled(batch)) {
        if (response.status === 'fulfilled') {
          this.#count(response.value.status, response.value.headers);
        }
      }
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  }

  #count(status: number, headers: Readonly<Record<string, string | string[] | undefined>>): void {
    const limits = /"minute";r=(\d+);t=(\d+)/.exec(String(headers.ratelimit));
    if (limits === null) {
      return;
    }
    if (status === 404) {
      this.#minuteOf(Number(headers['x-ratelimit-reset'])).remaining.push(Number(limits[1]));
    } else if (status === 429) {
      this.#minuteOf(Number(headers['x-ratelimit-reset'])).rejected++;
    }
  }

  #currentReset(): number {
    return (Math.floor(Date.now() / 60_000) + 1) * 60;
  }

  #minuteOf(reset: number): Minute {
    let minute = this.#minutes.get(reset);
    if (minute === undefined) {
      minute = { remaining: [], rejected: 0, isSuspended: false };
      this.#minutes.set(reset, minute);
    }
    return minute;
  }
}
