import { Readable } from 'node:stream';
import type { Connection, Submittable } from 'pg';
import { asError } from '../common/as-error.js';

/** Makes chunks of rows. */
export interface RowCollector<T> {
  /** @param row valid during the call; with its line break @returns the chunk that is complete now */
  add(row: Buffer): T | undefined;
  /** @returns the last chunk */
  end(): T | undefined;
}

/** Chunks that wait to be read before the socket is paused. */
const WAITING_MAX = 2;

/**
 * A statement `COPY … TO STDOUT`, for `client.query`: the chunks that a collector makes of its rows, at the pace of the consumer.
 *
 * pg-copy-streams would join the rows to buffers, in which the collector would have to find them again.
 */
export class CopyOut<T> extends Readable implements Submittable {
  #connection: Connection | undefined;
  /** Received so far. */
  rows = 0;

  constructor(
    private readonly statement: string,
    private readonly collector: RowCollector<T>,
  ) {
    super({ objectMode: true, highWaterMark: WAITING_MAX });
    // Handled where it is read.
    this.on('error', () => undefined);
  }

  submit(connection: Connection): void {
    this.#connection = connection;
    connection.query(this.statement);
  }

  override _read(): void {
    this.#connection?.stream.resume();
  }

  /** Called by pg, also for the rows that it has received before the socket was paused. */
  handleCopyData({ chunk }: { readonly chunk: Buffer }): void {
    this.rows++;
    this.#collect(chunk);
  }

  /** Called by pg. */
  handleCommandComplete(): void {
    this.#collect();
  }

  /** Called by pg. */
  handleReadyForQuery(): void {
    this.push(null);
    // The last chunk may have paused it, and the next statement needs it.
    this.#connection?.stream.resume();
  }

  /** Called by pg, also when the connection is lost. */
  handleError(error: Error): void {
    this.destroy(error);
  }

  /** @param row undefined at the end */
  #collect(row?: Buffer): void {
    if (this.destroyed) {
      return;
    }
    try {
      const chunk = row === undefined ? this.collector.end() : this.collector.add(row);
      if (chunk !== undefined && !this.push(chunk)) {
        this.#connection?.stream.pause();
      }
    } catch (error) {
      this.destroy(asError(error));
    }
  }
}
