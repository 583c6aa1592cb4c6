import { freeBuffer } from '../../common/free-buffer.js';

/** Orders in one chunk of the list at most. */
export const CHUNK_ROWS = 16_384;

/** More than one row can need as JSON: 60 bytes of names, two int64, one int32 and a date. */
const ROW_BYTES_MAX = 160;
const CHUNK_BYTES_MAX = CHUNK_ROWS * ROW_BYTES_MAX;
/** A smaller chunk is moved out of the buffer that it was encoded in, so that it takes at most four times as much memory as it counts. */
const BUFFERED_MIN_BYTES = CHUNK_BYTES_MAX / 4;

/**
 * JSON in the published form cannot express an order, because the columns are not what the migrations made them. A bare Error would count
 * as one of the database that may pass.
 */
function unencodable(row: string): TypeError {
  const [id = ''] = row.split('\t');
  return new TypeError(`The order ${JSON.stringify(id)} cannot be listed: PostgreSQL sent ${JSON.stringify(row)}.`);
}

/** A part of the list's JSON array, without the comma before it. */
export interface EncodedChunk {
  readonly bytes: Buffer;
  /** The number of its orders, up to {@link CHUNK_ROWS}. */
  readonly rows: number;
}

/**
 * Converts the text format of `COPY (SELECT id, pet_id, quantity, ship_date, complete …) TO STDOUT` to the elements of a JSON
 * array, separated by commas. No row becomes a string or an object, so ids stay exact and memory use is constant. In text
 * format these columns contain no escapes (PostgreSQL documentation, COPY, "Text Format"); the session must use UTC and ISO
 * dates. Every byte is checked, so whatever else PostgreSQL sends is an error.
 */
export class OrderListEncoder {
  /** The chunk that is being encoded. */
  #out: Buffer | undefined;
  #length = 0;
  #rows = 0;
  /** Memory for further chunks. */
  readonly #spare: Buffer[] = [];
  #isClosed = false;

  /** @param headerBytes before each row; they are skipped */
  constructor(private readonly headerBytes: number) {}

  /** Whether a chunk has begun and not ended. */
  get hasChunk(): boolean {
    return this.#out !== undefined;
  }

  get isFull(): boolean {
    return this.#rows === CHUNK_ROWS;
  }

  /** Ends the chunk. */
  endChunk(): EncodedChunk {
    const [out, rows] = [this.#out!, this.#rows];
    const bytes = out.subarray(0, this.#length);
    this.#out = undefined;
    [this.#length, this.#rows] = [0, 0];
    if (bytes.length >= BUFFERED_MIN_BYTES) {
      return { bytes, rows };
    }
    const copy = Buffer.from(bytes);
    this.recycle(out);
    return { bytes: copy, rows };
  }

  /** Takes back the memory of a chunk that is not read any more: to touch new memory costs a tenth of a list. */
  recycle(bytes: Buffer): void {
    if (bytes.buffer.byteLength === CHUNK_BYTES_MAX && !this.#isClosed) {
      this.#spare.push(Buffer.from(bytes.buffer));
    } else {
      freeBuffer(bytes);
    }
  }

  /** Call when no more chunks will begin. */
  close(): void {
    this.#isClosed = true;
    this.#spare.splice(0).forEach(freeBuffer);
  }

  /**
   * Encodes rows until the chunk is full.
   * @param rows whole ones, each behind its header
   * @returns where the rows begin that are left
   * @throws {Error} that names an order which JSON in the published form cannot express
   */
  write(rows: Buffer, from = 0): number {
    const out = (this.#out ??= this.#spare.pop() ?? Buffer.allocUnsafeSlow(CHUNK_BYTES_MAX));
    let to = this.#length;
    let at = from;
    while (at < rows.length && this.#rows < CHUNK_ROWS) {
      at += this.headerBytes;
      const row = at;
      to = put(out, to, this.#rows++ === 0 ? FIRST_ID : NEXT_ID);
      const id = copyInteger(rows, at, out, to);
      to = put(out, to + id, PET_ID);
      at += id + 1;
      const petId = copyInteger(rows, at, out, to);
      to = put(out, to + petId, QUANTITY);
      at += petId + 1;
      const quantity = copyInteger(rows, at, out, to);
      to += quantity;
      at += quantity + 1;
      const hasDate = rows[at] !== BACKSLASH;
      const date = hasDate ? copyTime(rows, at, out, put(out, to, SHIP_DATE)) : nullAt(rows, at);
      to = hasDate ? put(out, to + SHIP_DATE.length + TIME_LENGTH, COMPLETE_AFTER_DATE) : put(out, to, COMPLETE);
      at += date + 1;
      const isTrue = rows[at] === LETTER_LOWER_T;
      to = put(out, to, isTrue ? TRUE : FALSE);
      const isValid = (isTrue || rows[at] === LETTER_LOWER_F) && rows[at + 1] === NEWLINE;
      if (id === 0 || petId === 0 || quantity === 0 || date === 0 || !isValid) {
        throw unencodable(rows.toString('utf8', row, rows.indexOf(NEWLINE, row)));
      }
      at += 2;
    }
    this.#length = to;
    return at;
  }
}

/** Copies an integer, which ends with a tab. @returns its length; 0 when there is none */
function copyInteger(rows: Buffer, at: number, out: Buffer, start: number): number {
  let from = at;
  let to = start;
  if (rows[from] === MINUS) {
    out[to++] = MINUS;
    from++;
  }
  const digits = from;
  let byte = rows[from]!;
  while (isDigit(byte)) {
    out[to++] = byte;
    byte = rows[++from]!;
  }
  const length = from - at;
  return byte === TAB && from > digits && length <= INTEGER_LENGTH_MAX ? length : 0;
}

/**
 * Copies a time like `2026-11-21 00:58:46.12+00`, which ends with a tab, as `2026-11-21T00:58:46.120`: PostgreSQL omits trailing
 * zeros of a fraction; the published format always has milliseconds.
 * @returns the length that was read; 0 when there is no such time
 */
function copyTime(rows: Buffer, at: number, out: Buffer, to: number): number {
  for (let index = 0; index < SECONDS_LENGTH; index++) {
    const byte = rows[at + index]!;
    if ((byte ^ TIME[index]!) > TIME_VARIES[index]!) return 0;
    out[to + index] = byte;
  }
  out[to + DATE_LENGTH] = LETTER_T;
  out[to + SECONDS_LENGTH] = FULL_STOP;
  let length = SECONDS_LENGTH + 1;
  const hasFraction = rows[at + SECONDS_LENGTH] === FULL_STOP;
  let byte = hasFraction ? rows[at + length]! : PLUS;
  while (isDigit(byte) && length < TIME_LENGTH) {
    out[to + length++] = byte;
    byte = rows[at + length]!;
  }
  const read = hasFraction ? length : SECONDS_LENGTH;
  while (length < TIME_LENGTH) out[to + length++] = DIGIT_ZERO;
  for (let index = 0; index < UTC.length; index++) {
    if (rows[at + read + index] !== UTC[index]) return 0;
  }
  return read + UTC.length - 1;
}

/** Whether a byte is one of 0x30 to 0x39. */
function isDigit(byte: number): boolean {
  return (byte ^ DIGIT_ZERO) <= 9;
}

/** @returns the length of a NULL, which ends with a tab; 0 when there is none */
function nullAt(rows: Buffer, at: number): number {
  return rows[at + 1] === LETTER_N && rows[at + 2] === TAB ? 2 : 0;
}

/** Copies a short literal; a loop beats `Buffer.copy` and `set` for a dozen bytes. */
function put(out: Buffer, at: number, literal: Uint8Array): number {
  const length = literal.length;
  for (let index = 0; index < length; index++) out[at + index] = literal[index]!;
  return at + length;
}

const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'ascii'));

const FIRST_ID = bytes('{"id":');
const NEXT_ID = bytes(',{"id":');
const PET_ID = bytes(',"petId":');
const QUANTITY = bytes(',"quantity":');
const SHIP_DATE = bytes(',"shipDate":"');
const COMPLETE_AFTER_DATE = bytes('Z","complete":');
const COMPLETE = bytes(',"complete":');
const TRUE = bytes('true}');
const FALSE = bytes('false}');

const TAB = 0x09;
const NEWLINE = 0x0a;
const PLUS = 0x2b;
const MINUS = 0x2d;
const FULL_STOP = 0x2e;
const DIGIT_ZERO = 0x30;
const LETTER_N = 0x4e;
const LETTER_T = 0x54;
const BACKSLASH = 0x5c;
const LETTER_LOWER_F = 0x66;
const LETTER_LOWER_T = 0x74;

/** `-9223372036854775808`. */
const INTEGER_LENGTH_MAX = 20;
/** `2026-11-21`, before the blank that becomes a `T`. */
const DATE_LENGTH = 10;
/** Each byte of `2026-11-21 00:58:46`, and by how much it may differ: a digit by 9. */
const TIME = bytes('0000-00-00 00:00:00');
const TIME_VARIES = TIME.map((byte) => (byte === DIGIT_ZERO ? 9 : 0));
const SECONDS_LENGTH = TIME.length;
/** With milliseconds. */
const TIME_LENGTH = SECONDS_LENGTH + 4;
/** The offset, and the tab that ends the field. */
const UTC = bytes('+00\t');
