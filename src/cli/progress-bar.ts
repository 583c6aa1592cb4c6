import type { WriteStream } from 'node:tty';
import { count } from './wording.js';

const WIDTH = 30;
/** Terminals, and the people before them, see no more than this. */
const REDRAW_MS = 100;
const ERASE_LINE = '\r\u001b[K';

/** A line that is drawn over itself, on a terminal; elsewhere nothing is written. */
export class ProgressBar {
  #drawnAtMs = -Infinity;

  constructor(private readonly out: Pick<WriteStream, 'isTTY' | 'write'> = process.stderr) {}

  /**
   * @param done how much of the whole is done, from 0 to 1; undefined when the whole is not known
   * @param orders how many orders that is
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

  /** Makes room for what is said next. */
  clear(): void {
    if (this.out.isTTY && this.#drawnAtMs !== -Infinity) {
      this.out.write(ERASE_LINE);
    }
  }
}

function barOf(done: number): string {
  const full = Math.round(done * WIDTH);
  return `${'█'.repeat(full)}${'░'.repeat(WIDTH - full)}`;
}
