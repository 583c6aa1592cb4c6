import { ORDER_COLUMNS, type OrderColumn, textLengthMax } from '../order-columns.js';

/** Ids per block: `block = id >> 14`, as in the triggers of the migration. */
export const BLOCK_IDS = 16_384;
const BLOCK_BITS = 14n;
/** A piece ends with the block that its order of this number is in, so it has 20,479 orders at most. */
export const PIECE_ROWS_MIN = 4_096;
/** A chunk ends with the order that reaches this length. */
export const CHUNK_BYTES = 1_048_576;
/** Of one byte that PostgreSQL sends, as JSON: `\u0001`. */
const JSON_BYTES_MAX = 6;

/** One is filled while the two before it are compressed. */
const BUFFERS = 3;

/** A part of the list's JSON array, without the comma before it. */
export interface EncodedChunk {
  /** Overwritten by the third chunk after it. */
  readonly bytes: Buffer;
  /** The number of its orders. */
  readonly rows: number;
  /** Set for the first chunk of a piece: the block of its first order. A piece has all orders of its blocks. */
  readonly block: number | undefined;
}

/** How the text of a value becomes JSON: digits are copied. */
const KINDS = {
  bigint: 'digits',
  integer: 'digits',
  boolean: 'boolean',
  'timestamp(3) with time zone': 'time',
} as const satisfies Partial<Record<OrderColumn['type'], string>>;

interface Field {
  /** What precedes the value in JSON. */
  readonly label: Buffer;
  readonly isOptional: boolean;
  readonly kind: 'digits' | 'boolean' | 'time' | 'text';
}

function fieldOf({ name, type, isOptional }: OrderColumn, index: number): Field {
  const kind = textLengthMax(type) === undefined ? KINDS[type as keyof typeof KINDS] : 'text';
  const label = `${index === 0 ? '{' : ','}${JSON.stringify(name)}:${kind === 'time' ? '"' : ''}`;
  return { label: Buffer.from(label), isOptional: isOptional === true, kind };
}

/** What COPY reads, with the described types, also where the table has others: so the text of each value has a known form. */
export const SELECTED = ORDER_COLUMNS.map(({ column, type }) => `${column}::${type}`).join();

/**
 * Converts the text format of `COPY (SELECT {@link SELECTED} FROM orders ORDER BY id) TO STDOUT` to the elements of a JSON array,
 * separated by commas. Byte by byte: digits are copied, so ids stay exact, and orders become no strings, which would take three times as
 * long. The session must use UTC, ISO dates and UTF-8.
 */
export class OrderEncoder {
  readonly #fields: readonly Field[];
  /** What an order takes in addition to its values, at most. */
  readonly #labelBytes: number;
  /** The begin of an order whose end has not come. */
  #rest = EMPTY;
  /** Used in turns: left to the garbage collector, they would take several times as much memory. */
  readonly #buffers: Buffer[] = [];
  #chunks = 0;
  /** The chunk that is being encoded, and how much of it is. */
  #out = EMPTY;
  #to = 0;
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
    this.#labelBytes = this.#fields.reduce((sum, { label }) => sum + label.length + TIME_END_MAX.length, ',}'.length);
  }

  /**
   * @param input bytes of COPY, which may end anywhere
   * @returns the chunks that end
   * @throws {TypeError} that names an order which JSON in the published form cannot express
   */
  *add(input: Buffer): Generator<EncodedChunk, undefined> {
    const lines = this.#rest.length === 0 ? input : Buffer.concat([this.#rest, input]);
    const end = lines.lastIndexOf(NEWLINE) + 1;
    // For the last order of a chunk, which may be much longer than those that the chunk began with.
    const room = CHUNK_BYTES + lines.length * JSON_BYTES_MAX + this.#labelBytes;
    for (let at = 0; at < end;) {
      if (this.#beginsPiece(lines, at)) {
        yield* this.end();
        this.#startBlock = this.#lastBlock;
      }
      if (this.#out.length < room) {
        const encoded = this.#out.subarray(0, this.#to);
        this.#out = this.#bufferOf(room);
        this.#out.set(encoded);
      }
      at = this.#write(lines, at);
      if (this.#to >= CHUNK_BYTES) {
        yield this.#endChunk();
      }
    }
    this.#rest = lines.subarray(end);
  }

  /** Ends the piece. @returns its last chunk, if there is one */
  *end(): Generator<EncodedChunk, undefined> {
    this.#pieceRows = 0;
    if (this.#rows > 0) {
      yield this.#endChunk();
    }
  }

  #endChunk(): EncodedChunk {
    const chunk = { bytes: this.#out.subarray(0, this.#to), rows: this.#rows, block: this.#startBlock };
    [this.#out, this.#to, this.#rows, this.#startBlock] = [EMPTY, 0, 0, undefined];
    this.#chunks++;
    return chunk;
  }

  #bufferOf(room: number): Buffer {
    const index = this.#chunks % BUFFERS;
    const last = this.#buffers[index] ?? EMPTY;
    return (this.#buffers[index] = last.length < room ? Buffer.allocUnsafeSlow(room) : last);
  }

  #beginsPiece(lines: Buffer, at: number): boolean {
    // The blocks of the others are not needed.
    if (this.#pieceRows > 0 && this.#pieceRows < this.pieceRowsMin - 1) {
      return false;
    }
    const [last, block] = [this.#lastBlock, blockOf(lines, at)];
    this.#lastBlock = block;
    return this.#pieceRows === 0 || (this.#pieceRows >= this.pieceRowsMin && block !== last);
  }

  /** Writes an order. @returns where the next one begins */
  #write(lines: Buffer, start: number): number {
    const out = this.#out;
    let at = start;
    let to = this.#to;
    if (this.#rows > 0) out[to++] = COMMA;
    for (const { label, isOptional, kind } of this.#fields) {
      if (lines[at] === BACKSLASH && lines[at + 1] === LETTER_N) {
        if (!isOptional) throw unencodable(lines, start);
        at += NULL_LENGTH + 1;
        continue;
      }
      to = put(out, to, label);
      if (kind === 'boolean') {
        to = put(out, to, lines[at] === LETTER_LOWER_T ? TRUE : FALSE);
        at += 2;
        continue;
      }
      const [from, value] = [at, to];
      for (let byte = lines[at++]; byte !== TAB && byte !== NEWLINE; byte = lines[at++]) out[to++] = byte!;
      if (kind === 'time') {
        to = endTime(out, value, to);
        if (to === INVALID) throw unencodable(lines, start);
      } else if (kind === 'text') {
        to = value + out.write(jsonOf(lines.toString('utf8', from, at - 1)), value);
      }
    }
    out[to++] = CLOSING_BRACE;
    this.#to = to;
    this.#rows++;
    this.#pieceRows++;
    return at;
  }
}

/** JSON in the published form cannot express an order. */
function unencodable(lines: Buffer, start: number): TypeError {
  const line = lines.toString('utf8', start, lines.indexOf(NEWLINE, start));
  return new TypeError(
    `The order ${line.split('\t', 1)[0]} cannot be listed: PostgreSQL sent ${JSON.stringify(line)}.`,
  );
}

/** Byte by byte: for so few, a call of Node takes longer. @returns where they end */
function put(out: Buffer, start: number, bytes: Buffer): number {
  for (let index = 0; index < bytes.length; index++) out[start + index] = bytes[index]!;
  return start + bytes.length;
}

/**
 * Makes RFC 3339 of `2026-11-21 00:58:46.7+00`.
 * @returns where it ends; {@link INVALID} for another form, such as `infinity` or a year of five digits
 */
function endTime(out: Buffer, start: number, end: number): number {
  const to = end - '+00'.length;
  const hasFraction = out[start + SECONDS_LENGTH] === FULL_STOP;
  if (out[to] !== PLUS || out[start + YEAR_LENGTH] !== MINUS || !(hasFraction || to === start + SECONDS_LENGTH)) {
    return INVALID;
  }
  out[start + DATE_LENGTH] = LETTER_T;
  // PostgreSQL writes no zeros at the end.
  return put(out, to, TIME_END_MAX.subarray(to - start - SECONDS_LENGTH));
}

/** A text as COPY writes it (PostgreSQL documentation, COPY, "Text Format"). */
function jsonOf(text: string): string {
  const unescaped = text.replace(/\\(.)/gs, (_, character: string) => ESCAPED[character] ?? character);
  return JSON.stringify(unescaped);
}
/** Other characters behind a backslash stand for themselves. */
const ESCAPED: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' };

/** The block of an order. A double has all digits of a block, but not of every id. Most orders pass here: without a string it takes a third. */
function blockOf(lines: Buffer, start: number): number {
  const sign = lines[start] === MINUS ? -1 : 1;
  let at = sign === 1 ? start : start + 1;
  let id = 0;
  for (let byte = lines[at]; byte !== TAB; byte = lines[++at]) id = id * 10 + (byte! - DIGIT_ZERO);
  return id <= Number.MAX_SAFE_INTEGER
    ? Math.floor((sign * id) / BLOCK_IDS)
    : Number(BigInt(lines.toString('latin1', start, at)) >> BLOCK_BITS);
}

const EMPTY: Buffer = Buffer.alloc(0);
const [TRUE, FALSE, TIME_END_MAX] = [Buffer.from('true'), Buffer.from('false'), Buffer.from('.000Z"')];
const INVALID = -1;
/** As COPY writes NULL: `\N`. */
const NULL_LENGTH = 2;
const YEAR_LENGTH = '2026'.length;
const DATE_LENGTH = '2026-11-21'.length;
const SECONDS_LENGTH = '2026-11-21 00:58:46'.length;

const TAB = 0x09;
const NEWLINE = 0x0a;
const PLUS = 0x2b;
const COMMA = 0x2c;
const MINUS = 0x2d;
const FULL_STOP = 0x2e;
const DIGIT_ZERO = 0x30;
const LETTER_N = 0x4e;
const LETTER_T = 0x54;
const BACKSLASH = 0x5c;
const LETTER_LOWER_T = 0x74;
const CLOSING_BRACE = 0x7d;
