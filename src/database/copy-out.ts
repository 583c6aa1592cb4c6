import type { Duplex } from 'node:stream';
import type { Connection, Submittable } from 'pg';
import { freeBuffer } from '../common/free-buffer.js';

/** Types of messages (PostgreSQL documentation, "Message Formats"): `d`, and those that pg reads itself, `c` and `E`. */
const COPY_DATA = 0x64;
const COPY_DONE = 0x63;
const ERROR_RESPONSE = 0x45;
/** Every other one that can arrive: the response to COPY, the end of a statement, notices, parameters, notifications. */
const OTHERS: ReadonlySet<number> = new Set(Buffer.from('HcCNSA'));
/** Type and length. */
const HEADER_BYTES = 5;
/** Bytes of the length, which counts itself. */
const LENGTH_BYTES = 4;

/** Chunks that wait to be read before the socket is paused. */
const WAITING_MAX = 4;

const EMPTY = Buffer.alloc(0);

type Receive = (received: Buffer) => void;

interface Chunk {
  readonly rows: Buffer;
  /** What the socket received, set for the last rows in it. */
  readonly received?: Buffer | undefined;
}

/**
 * Statements `COPY … TO STDOUT`, for `client.query`: their rows in chunks that may end anywhere, at the pace of the consumer. An
 * empty chunk ends each statement.
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

  /** Statements that have not ended. */
  #statements: number;

  constructor(private readonly copies: readonly string[]) {
    this.#statements = copies.length;
  }

  submit(connection: Connection): void {
    const { stream } = connection;
    this.#stream = stream;
    this.#receiveInPg = stream.listeners('data')[0] as Receive;
    stream.off('data', this.#receiveInPg).on('data', this.#receive);
    connection.query(this.copies.join('; '));
  }

  /**
   * The next rows, or an empty chunk where a statement ends; undefined after the last one. They are valid until the next call. A
   * consumer that does not read all of them has to close the connection.
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
    let from = 0;
    let [start, to] = [0, 0];
    while (from < chunk.length && !this.#isForPg(chunk, from)) {
      if (this.#missing === 0) {
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
        if (this.#type === COPY_DONE) {
          this.#push(chunk.subarray(start, to));
          this.#endStatement();
          start = to;
        }
      }
      const length = Math.min(this.#missing, chunk.length - from);
      if (this.#type === COPY_DATA) {
        chunk.copyWithin(to, from, from + length);
        to += length;
      }
      from += length;
      this.#missing -= length;
    }
    const rest = this.#isForPg(chunk, from) ? Buffer.from(chunk.subarray(from)) : undefined;
    this.#push(chunk.subarray(start, to), chunk);
    if (rest !== undefined) {
      this.#leaveToPg(rest);
    }
    this.#wake();
  };

  /** Whether a message begins here that pg has to read: the end of the last statement, or an error. */
  #isForPg(chunk: Buffer, from: number): boolean {
    if (this.#missing > 0 || from >= chunk.length) {
      return false;
    }
    this.#type = chunk.readUInt8(from);
    return this.#type === ERROR_RESPONSE || (this.#type === COPY_DONE && this.#statements === 1);
  }

  #leaveToPg(rest: Buffer): void {
    this.#stream?.off('data', this.#receive).on('data', this.#receiveInPg).resume();
    if (this.#type === COPY_DONE) {
      this.#endStatement();
    }
    this.#receiveInPg(rest);
  }

  #push(rows: Buffer, received?: Buffer): void {
    if (rows.length > 0 && this.#waiting.push({ rows, received }) >= WAITING_MAX) {
      this.#stream?.pause();
    }
  }

  #endStatement(): void {
    this.#statements--;
    this.#waiting.push({ rows: EMPTY });
  }

  #finish(end: { readonly error?: Error }): void {
    this.#end ??= end;
    this.#wake();
  }
}
