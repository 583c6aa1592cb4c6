import { type Duplex, Readable } from 'node:stream';
import type { Connection, Submittable } from 'pg';
import { freeBuffer } from '../common/free-buffer.js';

/** Types of messages (PostgreSQL documentation, "Message Formats"): `d` and `c`, and `E` and `Z`, which pg reads itself. */
const COPY_DATA = 0x64;
const COPY_DONE = 0x63;
const FOR_PG: ReadonlySet<number | undefined> = new Set(Buffer.from('EZ'));
/** Every other one that can arrive: the response to COPY, the end of a statement, notices, parameters, notifications. */
const OTHERS: ReadonlySet<number> = new Set(Buffer.from('HcCNSA'));
/** Type and length: what precedes each row. */
export const HEADER_BYTES = 5;
/** Chunks that wait to be read before the socket is paused. */
const WAITING_MAX = 4;

const EMPTY = Buffer.alloc(0);

type Receive = (received: Buffer) => void;

export interface CopiedRows {
  /** Each behind {@link HEADER_BYTES}. */
  readonly rows: Buffer;
  /** What the socket received, set for the last rows in it. */
  readonly received?: Buffer | undefined;
}

/**
 * Statements `COPY … TO STDOUT`, for `client.query`: their rows in chunks of whole rows, at the pace of the consumer. An empty chunk
 * ends each statement.
 *
 * PostgreSQL sends each row as a message. pg and pg-copy-streams create several objects for each; here they stay as they are
 * received. Meanwhile pg does not see what the socket receives.
 */
export class CopyOut extends Readable implements Submittable {
  #stream: Duplex | undefined;
  #receiveInPg: Receive = () => undefined;
  /** The start of a message that has not arrived in full. */
  #rest = EMPTY;

  constructor(private readonly copies: readonly string[]) {
    super({ objectMode: true, highWaterMark: WAITING_MAX });
    // Handled where it is read.
    this.on('error', () => undefined);
  }

  submit(connection: Connection): void {
    const { stream } = connection;
    this.#stream = stream;
    this.#receiveInPg = stream.listeners('data')[0] as Receive;
    stream.off('data', this.#receiveInPg).on('data', this.#receive);
    connection.query(this.copies.join('; '));
  }

  override _read(): void {
    this.#stream?.resume();
  }

  /** Called by pg, also when the connection is lost. */
  handleError(error: Error): void {
    this.destroy(error);
  }

  /** Called by pg. */
  handleReadyForQuery(): void {
    this.push(null);
  }

  readonly #receive: Receive = (received) => {
    const chunk = Buffer.concat([this.#rest, received]);
    // Chunks of Node's TLS sockets may share memory.
    if (received.length === received.buffer.byteLength) {
      freeBuffer(received);
    }
    let [from, start] = [0, 0];
    while (from + HEADER_BYTES <= chunk.length && !FOR_PG.has(chunk[from])) {
      const type = chunk.readUInt8(from);
      const end = from + 1 + chunk.readUInt32BE(from + 1);
      if (end < from + HEADER_BYTES || (type !== COPY_DATA && !OTHERS.has(type))) {
        this.#stream?.destroy(new Error('Unexpected message from PostgreSQL during COPY.'));
        return;
      }
      if (end > chunk.length) {
        break;
      }
      if (type !== COPY_DATA) {
        this.#push(chunk.subarray(start, from));
        start = end;
      }
      if (type === COPY_DONE) {
        this.push({ rows: EMPTY });
      }
      from = end;
    }
    this.#rest = Buffer.from(chunk.subarray(from));
    this.#push(chunk.subarray(start, from), chunk);
    if (FOR_PG.has(this.#rest[0])) {
      this.#stream?.off('data', this.#receive).on('data', this.#receiveInPg).resume();
      this.#receiveInPg(this.#rest);
    }
  };

  #push(rows: Buffer, received?: Buffer): void {
    if (rows.length > 0 && !this.push({ rows, received })) {
      this.#stream?.pause();
    }
  }
}
