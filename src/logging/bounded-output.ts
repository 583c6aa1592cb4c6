import type { Writable } from 'node:stream';
import type { DestinationStream } from 'pino';

/** What is kept for a reader that does not read. Bytes. */
const BUFFER_MAX = 1_048_576;

/**
 * Writes log lines to stdout, those of one turn of the event loop together. Lines that a reader does not take in time are
 * dropped and counted: a log must hold neither the memory nor the requests of the service.
 */
export class BoundedOutput implements DestinationStream {
  #lines = '';
  #dropped = 0;

  constructor(private readonly output: Writable) {
    // A closed pipe or a full disk loses lines, and must not end the process.
    output.on('error', () => undefined);
  }

  write(line: string): void {
    if (this.output.writableLength + this.#lines.length + line.length > BUFFER_MAX) {
      this.#dropped++;
      return;
    }
    if (this.#lines === '') {
      setImmediate(() => {
        this.flush();
      });
    }
    this.#lines += line;
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
      this.output.write(lines, () => {
        done?.();
      });
    }
  }
}
