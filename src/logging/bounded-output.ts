import type { Writable } from 'node:stream';

/** What is kept for a reader that does not read. Bytes. */
const BUFFER_MAX = 1_048_576;
/** How long lines are collected after a write, and how many bytes of them. A write of its own for each costs a request 5 to 10 %. */
const COLLECTED_MS = 100;
const COLLECTED_MAX = 16_384;

/**
 * Writes log lines to stdout: one at once, and those that follow it closely together. Lines that a reader does not take in time
 * are dropped and counted: a log must hold neither the memory nor the requests of the service.
 */
export class BoundedOutput {
  #lines = '';
  #dropped = 0;
  /** Runs while lines are collected. */
  #timer: NodeJS.Timeout | undefined;

  constructor(private readonly output: Writable) {
    // A closed pipe or a full disk loses lines, and must not end the process.
    output.on('error', () => undefined);
  }

  write(line: string): void {
    if (this.output.writableLength + this.#lines.length + line.length > BUFFER_MAX) {
      this.#dropped++;
      return;
    }
    this.#lines += line;
    if (this.#timer === undefined || this.#lines.length >= COLLECTED_MAX) {
      this.flush();
    }
  }

  /**
   * Hands what was written to the operating system or, while it takes no more, to the buffer of the stream.
   * @param done called when the operating system has all of it, or cannot take it
   */
  flush(done?: () => void): void {
    if (this.#dropped > 0 && this.output.writableLength === 0) {
      this.#lines += `${JSON.stringify({ level: 40, time: new Date().toISOString(), dropped: this.#dropped, msg: 'dropped log lines' })}\n`;
      this.#dropped = 0;
    }
    const lines = this.#lines;
    this.#lines = '';
    if (lines !== '' || done !== undefined) {
      this.#timer ??= setTimeout(() => {
        this.#timer = undefined;
        this.flush();
      }, COLLECTED_MS).unref();
      this.output.write(lines, () => {
        done?.();
      });
    }
  }
}
