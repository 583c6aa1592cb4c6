import type { WriteStream } from 'node:tty';
import { count } from './wording.js';

const WIDTH = 30;
/** Minimum time between two redraws. */
const REDRAW_MS = 100;
const ERASE_LINE = '\r\u001b[K';

/** A progress line on a terminal. Writes nothing to a file or pipe. */
export class ProgressBar {
  #drawnAtMs = -Infinity;

  constructor(private readonly out: Pick<WriteStream, 'isTTY' | 'write'> = process.stderr) {}

  /**
   * @param done the fraction done, from 0 to 1; undefined when the total is unknown
   * @param orders the number of orders done
   */
  update(done: number | undefined, orders: number): void {
    const nowMs = performance.now();
    if (!this.out.isTTY || nowMs - this.#drawnAtMs < REDRAW_MS) {
      return;
    }
    this.#drawnAtMs = nowMs;
    const bar = done === undefined ? '' : `${barOf(done)} ${String(Math.floor(done * 100)).padStart(3)} %  `;
    this.out.write(`${ERASE_LINE}${bar}${count(orders)} orders`);
  }

  /** Erases the line. */
  clear(): void {
    if (this.out.isTTY && this.#drawnAtMs !== -Infinity) {
      this.out.write(ERASE_LINE);
    }
  }
}

/** @param done the fraction done, from 0 to 1 */
export function barOf(done: number, width = WIDTH): string {
  const full = Math.round(done * width);
  return `${'█'.repeat(full)}${'░'.repeat(width - full)}`;
}
