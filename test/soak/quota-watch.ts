import { requestRaw } from '../helpers/raw-http.js';

/** What was admitted in one minute, by the reset that its answers named. */
interface Minute {
  readonly told: number[];
  refused: number;
  isDisturbed: boolean;
}

/**
 * Spends a key as fast as a minute's quota allows and faster, over all services, and counts what was admitted in each
 * minute. While Redis is well that is never more than the plan, whatever else fails, and each admitted request is told a
 * number of its own; while Redis is away each process counts for itself.
 */
export class QuotaWatch {
  readonly #minutes = new Map<number, Minute>();
  #over = false;
  #running: Promise<void> = Promise.resolve();

  /** @param perMinute the key's quota; its day's quota is out of reach */
  constructor(
    private readonly baseUrls: () => readonly string[],
    private readonly key: string,
    private readonly perMinute: number,
  ) {}

  start(): void {
    this.#running = this.#spend();
  }

  async stop(): Promise<void> {
    this.#over = true;
    await this.#running;
  }

  /** From here on and for this minute the services may not have counted together. */
  disturb(): void {
    this.#minuteOf(this.#currentReset()).isDisturbed = true;
  }

  /** Minutes in which the quota was used up while Redis was well. */
  get provenMinutes(): number {
    return [...this.#minutes.values()].filter(
      ({ told, refused, isDisturbed }) => !isDisturbed && refused > 0 && told.length > 0,
    ).length;
  }

  faults(): string[] {
    return [...this.#minutes].flatMap(([reset, { told, isDisturbed }]) => {
      if (isDisturbed) {
        return [];
      }
      return told.length > this.perMinute || new Set(told).size !== told.length
        ? [`of ${this.perMinute} a minute ${told.length} were admitted in that before ${reset}: ${told.join(' ')}`]
        : [];
    });
  }

  async #spend(): Promise<void> {
    let number = 0;
    while (!this.#over) {
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
      this.#minuteOf(Number(headers['x-ratelimit-reset'])).told.push(Number(limits[1]));
    } else if (status === 429) {
      this.#minuteOf(Number(headers['x-ratelimit-reset'])).refused++;
    }
  }

  #currentReset(): number {
    return (Math.floor(Date.now() / 60_000) + 1) * 60;
  }

  #minuteOf(reset: number): Minute {
    const known = this.#minutes.get(reset);
    if (known !== undefined) {
      return known;
    }
    const minute: Minute = { told: [], refused: 0, isDisturbed: false };
    this.#minutes.set(reset, minute);
    return minute;
  }
}
