import type { Duplex } from 'node:stream';
import type { Connection, Submittable } from 'pg';
import { freeBuffer } from '../common/free-buffer.js';

/** Types of messages (PostgreSQL documentation, "Message Formats"): `d`, and those that pg reads itself, `c` and `E`. */
const COPY_DATA = 0x64;
const COPY_DONE = 0x63;
const ERROR_RESPONSE = 0x45;
/** Every other one that can arrive: the response to COPY, notices, parameters, notifications. */
const OTHERS: ReadonlySet<number> = new Set(Buffer.from('HNSA'));
/** Type and length. */
const HEADER_BYTES = 5;
/** Bytes of the length, which counts itself. */
const LENGTH_BYTES = 4;

/** Chunks that wait to be read before the socket is paused. */
const WAITING_MAX = 4;

const EMPTY = Buffer.alloc(0);

type Receive = (received: Buffer) => void;

interface Chunk {
  readonly received: Buffer;
  /** The rows in it, moved to its start. */
  readonly rows: Buffer;
}

/**
 * `COPY … TO STDOUT`, for `client.query`: its rows in chunks that may end anywhere, at the pace of the consumer.
 *
 * PostgreSQL sends each row as a message. pg and pg-copy-streams create several objects for each; here the rows of a chunk
 * are moved together within the chunk. Meanwhile pg does not see what the socket receives.
 */
export class CopyOut implements Submittable {
  readonly #waiting: Chunk[] = [];
  /** The last chunk that was returned. */
  #read: Chunk | undefined;
  #stream: Duplex | undefined;
  #receiveInPg: Receive = () => undefined;
  #wake: () => void = () => undefined;
  #end: { readonly error?: Error } | undefined;
  /** The start of a message whose header has not arrived in full. */
  #header = EMPTY;
  #type = 0;
  /** Bytes of the current message that have not arrived. */
  #missing = 0;

  constructor(private readonly statement: string) {}

  submit(connection: Connection): void {
    const { stream } = connection;
    this.#stream = stream;
    this.#receiveInPg = stream.listeners('data')[0] as Receive;
    stream.off('data', this.#receiveInPg).on('data', this.#receive);
    connection.query(this.statement);
  }

  /**
   * The next rows; undefined after the last one. They are valid until the next call. A consumer that does not read all of
   * them has to close the connection.
   * @throws {Error} of the database
   */
  async next(): Promise<Buffer | undefined> {
    // Chunks of Node's TLS sockets may share memory.
    const received = this.#read?.received;
    this.#read = undefined;
    if (received !== undefined && received.length === received.buffer.byteLength) {
      freeBuffer(received);
    }
    while (this.#waiting.length === 0 && this.#end === undefined) {
      this.#stream?.resume();
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
    if (this.#end?.error !== undefined) {
      throw this.#end.error;
    }
    this.#read = this.#waiting.shift();
    return this.#read?.rows;
  }

  /** Called by pg, also when the connection is lost. */
  handleError(error: Error): void {
    this.#finish({ error });
  }

  /** Called by pg. */
  handleReadyForQuery(): void {
    this.#finish({});
  }

  /** Called by pg. */
  handleCommandComplete(): void {
    // The end of the rows is known already.
  }

  readonly #receive: Receive = (received) => {
    const chunk = this.#header.length === 0 ? received : Buffer.concat([this.#header, received]);
    this.#header = EMPTY;
    let rest: Buffer | undefined;
    let from = 0;
    let to = 0;
    while (from < chunk.length) {
      if (this.#missing === 0) {
        this.#type = chunk.readUInt8(from);
        if (this.#type === COPY_DONE || this.#type === ERROR_RESPONSE) {
          rest = Buffer.from(chunk.subarray(from));
          break;
        }
        if (from + HEADER_BYTES > chunk.length) {
          this.#header = Buffer.from(chunk.subarray(from));
          break;
        }
        this.#missing = chunk.readUInt32BE(from + 1) - LENGTH_BYTES;
        if (this.#missing < 0 || (this.#type !== COPY_DATA && !OTHERS.has(this.#type))) {
          this.#stream?.destroy(new Error('Unexpected message from PostgreSQL during COPY.'));
          return;
        }
        from += HEADER_BYTES;
      }
      const length = Math.min(this.#missing, chunk.length - from);
      if (this.#type === COPY_DATA) {
        chunk.copyWithin(to, from, from + length);
        to += length;
      }
      from += length;
      this.#missing -= length;
    }
    if (to > 0 && this.#waiting.push({ received: chunk, rows: chunk.subarray(0, to) }) === WAITING_MAX) {
      this.#stream?.pause();
    }
    if (rest !== undefined) {
      this.#stream?.off('data', this.#receive).on('data', this.#receiveInPg).resume();
      this.#receiveInPg(rest);
    }
    this.#wake();
  };

  #finish(end: { readonly error?: Error }): void {
    this.#end ??= end;
    this.#wake();
  }
}
