import type { WriteStream } from 'node:tty';
import { barOf } from './bar.js';
import { count, span } from './wording.js';

const BAR_WIDTH = 20;
/** Minimum time between two redraws on a terminal, and the time between two without progress. */
const REDRAW_MS = 100;
const TICK_MS = 1_000;
/** Time between two lines in a log. */
const LOG_MS = 10_000;
const ERASE_LINE = '\r\u001b[K';

/** Where the progress is written: a terminal gets one line that is redrawn, everything else a line every ten seconds. */
type Output = Pick<WriteStream, 'isTTY' | 'write'>;

/** Shows the phase of a long command, and how far it is where that is known. */
export class Progress {
  readonly #timer: NodeJS.Timeout;
  readonly #startedAtMs = performance.now();
  #phase: string;
  #phaseStartedAtMs = this.#startedAtMs;
  #done: number | undefined;
  #orders: number | undefined;
  #drawnAtMs = -Infinity;

  constructor(
    phase: string,
    private readonly out: Output = process.stderr,
  ) {
    this.#phase = phase;
    this.#timer = setInterval(
      () => {
        this.#write();
      },
      out.isTTY ? TICK_MS : LOG_MS,
    ).unref();
  }

  /** Begins a phase. How long it takes is not known. */
  phase(name: string): void {
    this.#phase = name;
    this.#phaseStartedAtMs = performance.now();
    [this.#done, this.#orders] = [undefined, undefined];
    this.#draw();
  }

  /**
   * @param done the fraction of the phase that is done, from 0 to 1; undefined when the total is unknown
   * @param orders the number of orders done
   */
  update(done: number | undefined, orders: number): void {
    [this.#done, this.#orders] = [done, orders];
    if (performance.now() - this.#drawnAtMs >= REDRAW_MS) {
      this.#draw();
    }
  }

  /** Erases the line. */
  stop(): void {
    clearInterval(this.#timer);
    if (this.out.isTTY && this.#drawnAtMs !== -Infinity) {
      this.out.write(ERASE_LINE);
    }
  }

  #draw(): void {
    if (this.out.isTTY) {
      this.#write();
    }
  }

  #write(): void {
    const nowMs = performance.now();
    this.#drawnAtMs = nowMs;
    const elapsedMs = nowMs - this.#phaseStartedAtMs;
    const parts = [this.#phase, ...this.#figures(elapsedMs)];
    this.out.write(this.out.isTTY ? `${ERASE_LINE}${parts.join('  ')}` : `${parts.join(', ')}\n`);
  }

  #figures(elapsedMs: number): string[] {
    if (this.#orders === undefined) {
      return [span(elapsedMs)];
    }
    const done = this.#done;
    return [
      ...(done === undefined
        ? []
        : [
            `${this.out.isTTY ? `${barOf(done, BAR_WIDTH)} ` : ''}${String(Math.floor(done * 100)).padStart(this.out.isTTY ? 3 : 0)} %`,
          ]),
      `${count(this.#orders)} orders`,
      ...(elapsedMs < TICK_MS ? [] : [`${count(Math.round((this.#orders / elapsedMs) * 1_000))}/s`]),
      ...(elapsedMs < TICK_MS || done === undefined || done === 0
        ? []
        : [`${span((elapsedMs / done) * (1 - done))} left`]),
    ];
  }
}
