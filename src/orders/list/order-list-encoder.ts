import { isUtf8 } from 'node:buffer';
import { ORDER_COLUMNS, type OrderColumn, textLengthMax } from '../order-columns.js';

/** Ids per block: `block = id >> 14`, as in the triggers of the migration. */
export const BLOCK_IDS = 16_384;
/** A piece ends with the block that its order of this number is in, so it has 20,479 orders at most. */
export const PIECE_ROWS_MIN = 4_096;
/** JSON in one chunk, unless a single order takes more. */
export const CHUNK_BYTES = 1_048_576;
/** Of one byte that PostgreSQL sends, as JSON: `\u0001`. */
const ESCAPED_BYTES_MAX = 6;

/** A part of the list's JSON array, without the comma before it. */
export interface EncodedChunk {
  /** In memory of its own, of {@link CHUNK_BYTES}. */
  readonly bytes: Buffer;
  /** The number of its orders. */
  readonly rows: number;
  /** Set for the first chunk of a piece: the block of its first order. A piece has all orders of its blocks. */
  readonly block: number | undefined;
}

/**
 * Converts the text format of `COPY (SELECT … FROM orders ORDER BY id) TO STDOUT` with the described columns to the elements of a JSON
 * array, separated by commas. No row becomes a string or an object, so ids stay exact and memory use is constant. The session must use
 * UTC, ISO dates and UTF-8. Every byte is checked, so whatever else PostgreSQL sends is an error.
 */
export class OrderListEncoder {
  readonly #fields: readonly Field[];
  /** More than the names and the punctuation of an order take, with the rest of a word behind them. */
  readonly #namesLength: number;
  /** The chunk that is being encoded, and how much of it is. */
  #out = EMPTY;
  #view = new DataView(EMPTY.buffer);
  #length = 0;
  #rows = 0;
  #pieceRows = 0;
  /** See {@link EncodedChunk.block}. */
  #startBlock: number | undefined;
  #lastBlock = 0;

  /**
   * @param pieceRowsMin orders after which a piece ends with the block that it is in
   * @param columns the first is the id
   */
  constructor(
    private readonly pieceRowsMin = PIECE_ROWS_MIN,
    columns: readonly OrderColumn[] = ORDER_COLUMNS,
  ) {
    this.#fields = columns.map(fieldOf);
    this.#namesLength = this.#fields.reduce(
      (sum, { name }) => sum + name.length + '""'.length,
      ',}'.length + WORD_BYTES,
    );
  }

  /**
   * Adds an order.
   * @param row one line of COPY
   * @returns the chunk before it, if it begins a new one
   * @throws {TypeError} that names an order which JSON in the published form cannot express
   */
  add(row: Buffer): EncodedChunk | undefined {
    const beginsPiece = this.#beginsPiece(row);
    const bytesMax = this.#namesLength + row.length * ESCAPED_BYTES_MAX;
    const ended = beginsPiece || this.#length + bytesMax > this.#out.length ? this.#endChunk() : undefined;
    if (beginsPiece) {
      this.#pieceRows = 0;
      this.#startBlock = this.#lastBlock;
    }
    if (this.#rows === 0) {
      this.#out = Buffer.allocUnsafeSlow(Math.max(bytesMax, CHUNK_BYTES));
      this.#view = new DataView(this.#out.buffer);
    } else {
      this.#out[this.#length++] = COMMA;
    }
    this.#rows++;
    this.#pieceRows++;
    this.#length = this.#write(row);
    return ended;
  }

  /** Ends the piece. @returns its last chunk; undefined when there is none */
  end(): EncodedChunk | undefined {
    this.#pieceRows = 0;
    return this.#endChunk();
  }

  #endChunk(): EncodedChunk | undefined {
    const [bytes, rows, block] = [this.#out.subarray(0, this.#length), this.#rows, this.#startBlock];
    [this.#out, this.#length, this.#rows, this.#startBlock] = [EMPTY, 0, 0, undefined];
    return rows === 0 ? undefined : { bytes, rows, block };
  }

  #beginsPiece(row: Buffer): boolean {
    // The block of most orders is not needed.
    if (this.#pieceRows > 0 && this.#pieceRows < this.pieceRowsMin - 1) {
      return false;
    }
    const [last, block] = [this.#lastBlock, blockOf(row)];
    this.#lastBlock = block;
    return this.#pieceRows === 0 || (this.#pieceRows >= this.pieceRowsMin && block !== last);
  }

  /** @returns where the order ends */
  #write(row: Buffer): number {
    const [fields, out, view] = [this.#fields, this.#out, this.#view];
    const last = fields.length - 1;
    let [at, to] = [0, this.#length];
    for (let index = 0; index <= last; index++) {
      const { name, isOptional, kind } = fields[index]!;
      if (isOptional && row[at] === BACKSLASH && row[at + 1] === LETTER_N) {
        at += 2;
      } else {
        to = put(view, to, name);
        if (kind === INTEGER) {
          const length = copyInteger(row, at, out, to);
          at += length;
          to += length;
        } else if (kind === TIME) {
          at += copyTime(row, at, out, to);
          to += TIME_LENGTH;
        } else if (kind === BOOLEAN) {
          const isTrue = row[at] === LETTER_LOWER_T;
          to = put(view, to, isTrue ? TRUE : FALSE);
          at += isTrue || row[at] === LETTER_LOWER_F ? 1 : INVALID;
        } else {
          const end = endOfText(row, at);
          to = copyText(row, at, end, out, to);
          at = end;
        }
      }
      if (row[at++] !== (index === last ? NEWLINE : TAB)) throw unencodable(row);
    }
    if (at !== row.length) throw unencodable(row);
    out[to++] = CLOSING_BRACE;
    return to;
  }
}

/**
 * JSON in the published form cannot express an order, because the columns are not what the migrations made them. A bare Error would count
 * as one of the database that may pass.
 */
function unencodable(row: Buffer): TypeError {
  const text = row.toString().replace(/\n$/, '');
  const [id = ''] = text.split('\t');
  return new TypeError(`The order ${JSON.stringify(id)} cannot be listed: PostgreSQL sent ${JSON.stringify(text)}.`);
}

const INTEGER = 0;
const TIME = 1;
const BOOLEAN = 2;
const TEXT = 3;

interface Field {
  /** What precedes the value. */
  readonly name: Literal;
  readonly isOptional: boolean;
  readonly kind: typeof INTEGER | typeof TIME | typeof BOOLEAN | typeof TEXT;
}

function fieldOf({ name, type, isOptional }: OrderColumn, index: number): Field {
  return {
    name: literalOf(`${index === 0 ? '{' : ','}${JSON.stringify(name)}:`),
    isOptional: isOptional === true,
    kind: textLengthMax(type) === undefined ? KINDS[type as keyof typeof KINDS] : TEXT,
  };
}

const KINDS = {
  bigint: INTEGER,
  integer: INTEGER,
  boolean: BOOLEAN,
  'timestamp(3) with time zone': TIME,
} as const satisfies Partial<Record<OrderColumn['type'], Field['kind']>>;

/** The length of a value that is none: behind it, nothing ends the field. */
const INVALID = 2 ** 30;

/** Copies an integer. @returns its length */
function copyInteger(row: Buffer, from: number, out: Buffer, start: number): number {
  let [at, to] = [from, start];
  if (row[at] === MINUS) {
    out[to++] = MINUS;
    at++;
  }
  const first = at;
  for (let byte = row[at]!; isDigit(byte); byte = row[++at]!) out[to++] = byte;
  const digits = at - first;
  const isJson = digits === 1 || (digits > 1 && row[first] !== DIGIT_ZERO);
  return isJson && digits <= INT64_DIGITS_MAX ? at - from : INVALID;
}

/** `2026-11-21 00:58:46.7+00` to `"2026-11-21T00:58:46.700Z"`, of {@link TIME_LENGTH}. @returns the length that was read */
function copyTime(row: Buffer, at: number, out: Buffer, start: number): number {
  out[start] = QUOTE;
  const to = start + 1;
  for (let index = 0; index < SECONDS_LENGTH; index++) {
    const byte = row[at + index]!;
    if ((byte ^ TIME_FORM[index]!) > TIME_VARIES[index]!) return INVALID;
    out[to + index] = byte;
  }
  out[to + DATE_LENGTH] = LETTER_T;
  out[to + SECONDS_LENGTH] = FULL_STOP;
  let length = SECONDS_LENGTH + 1;
  const hasFraction = row[at + SECONDS_LENGTH] === FULL_STOP;
  let byte = hasFraction ? row[at + length]! : PLUS;
  while (isDigit(byte) && length < MILLISECONDS_LENGTH) {
    out[to + length++] = byte;
    byte = row[at + length]!;
  }
  const read = hasFraction ? length : SECONDS_LENGTH;
  while (length < MILLISECONDS_LENGTH) out[to + length++] = DIGIT_ZERO;
  out[to + length] = LETTER_Z;
  out[to + length + 1] = QUOTE;
  const isUtc = row[at + read] === UTC[0] && row[at + read + 1] === UTC[1] && row[at + read + 2] === UTC[2];
  return isUtc ? read + UTC.length : INVALID;
}

function endOfText(row: Buffer, from: number): number {
  let at = from;
  while (at < row.length && row[at] !== TAB && row[at] !== NEWLINE) at++;
  return at;
}

/**
 * Copies a text. COPY escapes a backslash and some control characters by a backslash, of which JSON writes one in another way; JSON
 * escapes quotes and the other control characters, too.
 * @returns where its JSON ends
 */
function copyText(row: Buffer, from: number, end: number, out: Buffer, start: number): number {
  let to = start;
  let isAscii = true;
  out[to++] = QUOTE;
  for (let at = from; at < end; at++) {
    const byte = row[at]!;
    isAscii &&= byte < 0x80;
    if (byte === BACKSLASH) {
      const escaped = row[++at]!;
      if (!ESCAPED_BY_COPY.includes(escaped)) throw unencodable(row);
      to += out.write(escaped === LETTER_V ? VERTICAL_TAB : `\\${String.fromCharCode(escaped)}`, to);
    } else if (byte === QUOTE) {
      to += out.write('\\"', to);
    } else if (byte < 0x20) {
      to += out.write(`\\u${byte.toString(16).padStart(4, '0')}`, to);
    } else {
      out[to++] = byte;
    }
  }
  if (!isAscii && !isUtf8(row.subarray(from, end))) throw unencodable(row);
  out[to++] = QUOTE;
  return to;
}

/** The block of an order. A double has all digits of a block, but not of every id. */
function blockOf(row: Buffer): number {
  let [id, at] = [0, row[0] === MINUS ? 1 : 0];
  for (let byte = row[at]!; isDigit(byte); byte = row[++at]!) id = id * 10 + (byte - DIGIT_ZERO);
  return id <= Number.MAX_SAFE_INTEGER
    ? Math.floor((row[0] === MINUS ? -id : id) / BLOCK_IDS)
    : Number(BigInt(row.toString('latin1', 0, at)) >> 14n);
}

/** Whether a byte is one of 0x30 to 0x39. */
function isDigit(byte: number): boolean {
  return (byte ^ DIGIT_ZERO) <= 9;
}

/** A short text in whole words: what follows it overwrites the rest of the last one. */
interface Literal {
  readonly words: Int32Array;
  readonly length: number;
}

function literalOf(text: string): Literal {
  const bytes = Buffer.from(text);
  const padded = Buffer.concat([bytes], Math.ceil(bytes.length / WORD_BYTES) * WORD_BYTES);
  const words = new Int32Array(padded.length / WORD_BYTES).map((_, index) => padded.readInt32BE(index * WORD_BYTES));
  return { words, length: bytes.length };
}

/** Writes a literal: four bytes at once, which takes a third of the time of a byte at a time. @returns where it ends */
function put(out: DataView, at: number, { words, length }: Literal): number {
  for (let index = 0; index < words.length; index++) out.setInt32(at + index * WORD_BYTES, words[index]!);
  return at + length;
}

function bytes(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text));
}

const EMPTY = Buffer.alloc(0);

const TAB = 0x09;
const NEWLINE = 0x0a;
const QUOTE = 0x22;
const PLUS = 0x2b;
const COMMA = 0x2c;
const MINUS = 0x2d;
const FULL_STOP = 0x2e;
const DIGIT_ZERO = 0x30;
const LETTER_N = 0x4e;
const LETTER_T = 0x54;
const LETTER_Z = 0x5a;
const BACKSLASH = 0x5c;
const LETTER_LOWER_F = 0x66;
const LETTER_LOWER_T = 0x74;
const LETTER_V = 0x76;
const CLOSING_BRACE = 0x7d;

const WORD_BYTES = 4;
const TRUE = literalOf('true');
const FALSE = literalOf('false');

/** After a backslash (PostgreSQL documentation, COPY, "Text Format"); JSON has all of them but the vertical tab. */
const ESCAPED_BY_COPY = bytes('\\bfnrtv');
const VERTICAL_TAB = '\\u000b';

/** Without the sign. */
const INT64_DIGITS_MAX = 19;
/** `2026-11-21`, before the blank that becomes a `T`. */
const DATE_LENGTH = 10;
/** Each byte of `2026-11-21 00:58:46`, and by how much it may differ: a digit by 9. */
const TIME_FORM = bytes('0000-00-00 00:00:00');
const TIME_VARIES = TIME_FORM.map((byte) => (byte === DIGIT_ZERO ? 9 : 0));
const SECONDS_LENGTH = TIME_FORM.length;
const MILLISECONDS_LENGTH = SECONDS_LENGTH + '.000'.length;
const UTC = bytes('+00');
const TIME_LENGTH = MILLISECONDS_LENGTH + '""Z'.length;
