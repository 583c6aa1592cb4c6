/**
 * Converts the text format of `COPY (SELECT id, pet_id, quantity, ship_date, complete …) TO STDOUT` to the elements of a JSON
 * array, separated by commas. No row becomes a string or an object, so ids stay exact and memory use is constant. In text
 * format these columns contain no escapes (PostgreSQL documentation, COPY, "Text Format"); the session must use UTC and ISO
 * dates.
 */
export class OrderListEncoder {
  #out: Buffer;
  #length = 0;
  #rows = 0;
  /** The start of a row whose end has not arrived yet. */
  #partial: Buffer | undefined;

  /**
   * @param emit receives each full buffer and owns it afterwards
   * @param allocate returns a buffer to fill, of at least {@link ROW_BYTES_MAX} bytes
   */
  constructor(
    private readonly emit: (bytes: Buffer) => void,
    private readonly allocate: () => Buffer,
  ) {
    this.#out = this.allocate();
  }

  /** Rows encoded so far. */
  get rows(): number {
    return this.#rows;
  }

  /** Encodes the next chunk of the COPY data; a chunk may end anywhere. */
  write(chunk: Buffer): void {
    let start = 0;
    if (this.#partial !== undefined) {
      const end = chunk.indexOf(NEWLINE) + 1;
      if (end === 0) {
        this.#partial = Buffer.concat([this.#partial, chunk]);
        return;
      }
      this.#encodeRows(Buffer.concat([this.#partial, chunk.subarray(0, end)]), 0, this.#partial.length + end);
      this.#partial = undefined;
      start = end;
    }
    const end = chunk.lastIndexOf(NEWLINE) + 1;
    if (end > start) {
      this.#encodeRows(chunk, start, end);
    }
    const rest = Math.max(start, end);
    if (rest < chunk.length) {
      this.#partial = Buffer.from(chunk.subarray(rest));
    }
  }

  /** Emits the last buffer. */
  end(): void {
    if (this.#length > 0) {
      this.emit(this.#out.subarray(0, this.#length));
    }
  }

  #encodeRows(rows: Buffer, start: number, end: number): void {
    let out = this.#out;
    let to = this.#length;
    let at = start;
    while (at < end) {
      if (to + ROW_BYTES_MAX > out.length) {
        this.emit(out.subarray(0, to));
        out = this.allocate();
        to = 0;
      }
      to = put(out, to, this.#rows++ === 0 ? FIRST_ID : NEXT_ID);
      // Every field ends with a tab or a newline, the lowest bytes in a row; an unexpected row also ends these loops.
      let byte;
      while ((byte = rows[at++]!) > NEWLINE) out[to++] = byte;
      to = put(out, to, PET_ID);
      while ((byte = rows[at++]!) > NEWLINE) out[to++] = byte;
      to = put(out, to, QUANTITY);
      while ((byte = rows[at++]!) > NEWLINE) out[to++] = byte;
      if (rows[at] === BACKSLASH) {
        at += NULL_LENGTH + 1;
        to = put(out, to, COMPLETE);
      } else {
        to = put(out, to, SHIP_DATE);
        const dateStart = to;
        while ((byte = rows[at++]!) !== PLUS && byte > NEWLINE) out[to++] = byte;
        out[dateStart + DATE_LENGTH] = LETTER_T;
        to = padMilliseconds(out, to, to - dateStart);
        at += OFFSET_REST_LENGTH + 1;
        to = put(out, to, COMPLETE_AFTER_DATE);
      }
      to = put(out, to, rows[at] === LETTER_LOWER_T ? TRUE : FALSE);
      at += 2;
    }
    this.#out = out;
    this.#length = to;
  }
}

/** PostgreSQL omits trailing zeros of a fraction; the published format always has milliseconds. */
function padMilliseconds(out: Buffer, end: number, length: number): number {
  let to = end;
  if (length === SECONDS_LENGTH) {
    out[to++] = FULL_STOP;
  }
  for (let digits = Math.max(0, length - SECONDS_LENGTH - 1); digits < MILLISECOND_DIGITS; digits++) {
    out[to++] = DIGIT_ZERO;
  }
  return to;
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

const NEWLINE = 0x0a;
const PLUS = 0x2b;
const FULL_STOP = 0x2e;
const DIGIT_ZERO = 0x30;
const LETTER_T = 0x54;
const LETTER_LOWER_T = 0x74;
const BACKSLASH = 0x5c;

/** `\N`, the text form's NULL. */
const NULL_LENGTH = 2;
/** `2026-11-21`, before the blank that becomes a `T`. */
const DATE_LENGTH = 10;
/** `2026-11-21 00:58:46`, without a fraction. */
const SECONDS_LENGTH = 19;
const MILLISECOND_DIGITS = 3;
/** `00`, what follows the plus sign of the offset in UTC. */
const OFFSET_REST_LENGTH = 2;

/** More than one row can need as JSON: 60 bytes of names, two int64, one int32 and a date. */
export const ROW_BYTES_MAX = 160;
