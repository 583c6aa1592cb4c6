import fc from 'fast-check';
import {
  BLOCK_IDS,
  CHUNK_BYTES,
  type EncodedChunk,
  OrderEncoder,
  PIECE_ROWS_MIN,
} from '../../src/orders/list/order-encoder.js';
import { ORDER_COLUMNS, type OrderColumn } from '../../src/orders/order-columns.js';

/** The published fields. Others may follow them: what they add is tested by columns of each type below. */
const PUBLISHED = ORDER_COLUMNS.slice(0, 5);
const publishedEncoder = (): OrderEncoder => new OrderEncoder(PIECE_ROWS_MIN, PUBLISHED);

interface Order {
  readonly id: bigint;
  readonly petId: bigint;
  readonly quantity: number;
  /** Unix milliseconds. */
  readonly shipDate: number | null;
  readonly complete: boolean;
}

const int64 = fc.oneof(
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.bigInt({ min: -1_000n, max: 1_000n }),
  fc.constantFrom(-(2n ** 63n), 2n ** 63n - 1n, 2n ** 53n + 1n),
);
const FIRST_MS = new Date('0001-01-01T00:00:00.000Z').getTime();
const LAST_MS = new Date('9999-12-31T23:59:59.999Z').getTime();
const shipDate = fc.oneof(
  fc.integer({ min: FIRST_MS, max: LAST_MS }),
  // Whole seconds, tenths and hundredths, whose zeros PostgreSQL does not write.
  fc.integer({ min: FIRST_MS / 1_000, max: Math.floor(LAST_MS / 1_000) - 1 }).map((seconds) => seconds * 1_000),
  fc.integer({ min: 0, max: 10 ** 11 }).map((tenths) => tenths * 100),
  fc.integer({ min: 0, max: 10 ** 12 }).map((hundredths) => hundredths * 10),
  fc.constantFrom(FIRST_MS, LAST_MS),
);
const orders: fc.Arbitrary<readonly Order[]> = fc.array(
  fc.record({
    id: int64,
    petId: int64,
    quantity: fc.integer({ min: 1, max: 2_147_483_647 }),
    shipDate: fc.option(shipDate),
    complete: fc.boolean(),
  }),
  { maxLength: 40 },
);

/** A row as PostgreSQL writes it in the text form of COPY, in UTC with ISO dates. */
function copyRow({ id, petId, quantity, shipDate: milliseconds, complete }: Order): string {
  const date =
    milliseconds === null
      ? '\\N'
      : new Date(milliseconds)
          .toISOString()
          .replace('T', ' ')
          .replace('Z', '')
          .replace(/\.?0+$/, '') + '+00';
  return `${[id, petId, quantity, date, complete ? 't' : 'f'].join('\t')}\n`;
}

function jsonOf({ id, petId, quantity, shipDate: milliseconds, complete }: Order): string {
  const date = milliseconds === null ? '' : `"shipDate":"${new Date(milliseconds).toISOString()}",`;
  return `{"id":${id},"petId":${petId},"quantity":${quantity},${date}"complete":${complete}}`;
}

/** Encodes what PostgreSQL sends, in these parts. */
function encode(parts: readonly (string | Buffer)[], encoder = publishedEncoder()): EncodedChunk[] {
  // Their buffers are used in turns.
  const copy = (chunk: EncodedChunk): EncodedChunk => ({ ...chunk, bytes: Buffer.from(chunk.bytes) });
  return [
    ...parts.flatMap((part) => Array.from(encoder.add(Buffer.from(part)), copy)),
    ...Array.from(encoder.end(), copy),
  ];
}

/** Cuts the bytes of some rows at these fractions of their length. */
function cut(rows: readonly string[], fractions: readonly number[]): Buffer[] {
  const bytes = Buffer.from(rows.join(''));
  const places = fractions.map((fraction) => Math.floor(fraction * bytes.length)).toSorted((one, other) => one - other);
  return [0, ...places].map((place, index) => bytes.subarray(place, places[index]));
}
const fractions = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 40 });

const textOf = (chunks: readonly EncodedChunk[]): string => `[${chunks.map(({ bytes }) => bytes.toString()).join()}]`;

/** Rows of these ids. */
const rowsOf = (ids: readonly (bigint | number)[]): string[] => ids.map((id) => `${id}\t1\t1\t\\N\tf\n`);
const idsOf = ({ bytes }: EncodedChunk): number[] =>
  (JSON.parse(`[${bytes.toString()}]`) as { id: number }[]).map(({ id }) => id);

/** The pieces of some rows: the block that each begins with, and the number of its orders. */
function piecesOf(chunks: readonly EncodedChunk[]): [block: number, rows: number][] {
  const pieces: [number, number][] = [];
  for (const { block, rows } of chunks) {
    if (block !== undefined) {
      pieces.push([block, 0]);
    }
    pieces.at(-1)![1] += rows;
  }
  return pieces;
}

const range = (length: number, at: (index: number) => number): number[] => Array.from({ length }, (_, n) => at(n));

describe('OrderEncoder', () => {
  it('writes all rows exactly, wherever the bytes of PostgreSQL are cut', () => {
    fc.assert(
      fc.property(orders, fractions, (list, at) => {
        const text = textOf(encode(cut(list.map(copyRow), at)));
        expect(text).toBe(`[${list.map(jsonOf).join(',')}]`);
        expect(JSON.parse(text)).toHaveLength(list.length);
      }),
      { numRuns: 300 },
    );
  });

  it('when a chunk reaches a megabyte, ends it with that order', () => {
    const ids = range(70_000, (n) => n % BLOCK_IDS);
    const chunks = encode([rowsOf(ids).join('')]);
    expect(chunks.flatMap(idsOf)).toEqual(ids);
    expect(chunks.length).toBeGreaterThan(2);
    for (const { bytes } of chunks.slice(0, -1)) {
      expect(bytes.length).toBeGreaterThanOrEqual(CHUNK_BYTES);
      expect(bytes.length).toBeLessThan(CHUNK_BYTES + 100);
    }
  });

  it.each<[string, number[], [block: number, rows: number][]]>([
    [
      'an order in each block',
      range(9_000, (n) => n * BLOCK_IDS),
      [
        [0, 4_096],
        [4_096, 4_096],
        [8_192, 808],
      ],
    ],
    [
      'dense ids that reach the minimum with a block',
      range(30_000, (n) => n + 16_384 - 4_096),
      [
        [0, 4_096],
        [1, 16_384],
        [2, 9_520],
      ],
    ],
  ])('ends pieces of at least 4,096 orders with a block: %s', (_what, ids, pieces) => {
    const chunks = encode(rowsOf(ids));
    expect(piecesOf(chunks)).toEqual(pieces);
    expect(chunks.flatMap(idsOf)).toEqual(ids);
  });

  it.each([
    [-(2n ** 63n), -(2 ** 49)],
    [-16_385n, -2],
    [-1n, -1],
    [16_383n, 0],
    [2n ** 53n, 2 ** 39],
    [2n ** 63n - 1n, 2 ** 49 - 1],
  ])('when the id of an order is %s, its block is %s', (id, block) => {
    expect(piecesOf(encode(rowsOf([id])))).toEqual([[block, 1]]);
  });

  it.each([
    ['no quantity', '1\t2\t\\N\t\\N\tf'],
    ['the ship date infinity', '1\t2\t3\tinfinity\tf'],
    ['a ship date before our era', '1\t2\t3\t0044-03-15 00:00:00+00 BC\tf'],
    ['a ship date of five digits', '1\t2\t3\t10000-01-01 00:00:00+00\tf'],
  ])('throws a TypeError for a row with %s, and names the order', (_what, row) => {
    const [id = ''] = row.split('\t');
    expect(() => encode([...rowsOf([7]), `${row}\n`, ...rowsOf([8])])).toThrow(
      new TypeError(`The order ${id} cannot be listed: PostgreSQL sent ${JSON.stringify(row)}.`),
    );
  });
});

describe('OrderEncoder with columns of text', () => {
  const COLUMNS: readonly OrderColumn[] = [
    ...ORDER_COLUMNS.slice(0, 1),
    { name: 'title', column: 'title', type: 'text' },
    { name: 'remark "1"', column: 'remark', type: 'character varying(200)', isOptional: true },
  ];
  const ESCAPES: Readonly<Record<string, string>> = {
    ...{ '\\': '\\\\', '\b': '\\b', '\f': '\\f', '\n': '\\n' },
    ...{ '\r': '\\r', '\t': '\\t', '\v': '\\v' },
  };

  /** As PostgreSQL writes it in the text form of COPY. */
  const copyText = (text: string | null): string =>
    text === null ? '\\N' : text.replace(/[\\\b\f\n\r\t\v]/g, (character) => ESCAPES[character]!);
  const rowOf = (id: number, title: string, remark: string | null): string =>
    `${[id, copyText(title), copyText(remark)].join('\t')}\n`;
  const encoder = (): OrderEncoder => new OrderEncoder(PIECE_ROWS_MIN, COLUMNS);

  /** PostgreSQL stores neither U+0000 nor halves of a surrogate pair. */
  const text = fc.string({ unit: 'grapheme' }).map((value) => value.replaceAll('\0', ''));
  const special = fc
    .array(fc.constantFrom(...Array.from('\\"\b\f\n\r\t\v\x01\x1f\x7f/N.,{ü€😀 \u2028')))
    .map((characters) => characters.join(''));

  it('writes every text exactly, wherever the bytes of PostgreSQL are cut', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.oneof(text, special), fc.option(fc.oneof(text, special)))),
        fractions,
        (texts, at) => {
          const rows = texts.map(([title, remark], id) => rowOf(id, title, remark));
          const listed = texts.map(([title, remark], id) => ({
            id,
            title,
            ...(remark !== null && { 'remark "1"': remark }),
          }));
          expect(JSON.parse(textOf(encode(cut(rows, at), encoder())))).toEqual(listed);
        },
      ),
      { numRuns: 300 },
    );
  });
});
