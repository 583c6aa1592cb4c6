import fc from 'fast-check';
import {
  BLOCK_IDS,
  CHUNK_BYTES,
  type EncodedChunk,
  OrderListEncoder,
  PIECE_ROWS_MIN,
} from '../../../../src/orders/list/order-list-encoder.js';
import { ORDER_COLUMNS, type OrderColumn } from '../../../../src/orders/order-columns.js';

/** The published fields. Others may follow them: what they add is tested by columns of each type below. */
const PUBLISHED = ORDER_COLUMNS.slice(0, 5);
const publishedEncoder = (): OrderListEncoder => new OrderListEncoder(PIECE_ROWS_MIN, PUBLISHED);

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

/** Encodes rows, each in memory that is used again. */
function encode(rows: readonly string[], encoder = publishedEncoder()): EncodedChunk[] {
  const chunks: (EncodedChunk | undefined)[] = [];
  for (const row of rows) {
    const bytes = Buffer.from(row);
    chunks.push(encoder.add(bytes));
    bytes.fill('x');
  }
  return [...chunks, encoder.end()].filter((chunk) => chunk !== undefined);
}

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

describe('OrderListEncoder', () => {
  it('writes all rows exactly', () => {
    fc.assert(
      fc.property(orders, (list) => {
        const text = textOf(encode(list.map(copyRow)));
        expect(text).toBe(`[${list.map(jsonOf).join(',')}]`);
        expect(JSON.parse(text)).toHaveLength(list.length);
      }),
      { numRuns: 300 },
    );
  });

  it('begins a chunk when there is no room for one more order, so that none has more than a megabyte', () => {
    const ids = range(90_000, (n) => n % BLOCK_IDS);
    const chunks = encode(rowsOf(ids));
    expect(chunks.flatMap(idsOf)).toEqual(ids);
    expect(chunks.length).toBeGreaterThan(3);
    for (const { bytes } of chunks.slice(0, -1)) {
      expect(bytes.length).toBeLessThanOrEqual(CHUNK_BYTES);
    }
  });

  it.each<[string, number[], [block: number, rows: number][]]>([
    ['no orders', [], []],
    ['fewer orders than a piece has', range(4_000, (n) => n * BLOCK_IDS), [[0, 4_000]]],
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
      'dense ids from 1',
      range(40_000, (n) => n + 1),
      [
        [0, 16_383],
        [1, 16_384],
        [2, 7_233],
      ],
    ],
    [
      'dense ids after the minimum within a block',
      range(30_000, (n) => n + 16_384 - 4_095),
      [
        [0, 20_479],
        [2, 9_521],
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
    ['negative ids', range(20_000, (n) => n - 20_000), [[-2, 20_000]]],
  ])('ends pieces of at least 4,096 orders with a block: %s', (_what, ids, pieces) => {
    const chunks = encode(rowsOf(ids));
    expect(piecesOf(chunks)).toEqual(pieces);
    expect(chunks.flatMap(idsOf)).toEqual(ids);
  });

  it('ends a piece with the statement, although it is small', () => {
    const encoder = publishedEncoder();
    const first = encode(rowsOf(range(10, (n) => n)), encoder);
    expect(piecesOf([...first, ...encode(rowsOf([11, 12]), encoder)])).toEqual([
      [0, 10],
      [0, 2],
    ]);
  });

  it.each([
    [-(2n ** 63n), -(2 ** 49)],
    [-(2n ** 53n) - 1n, -(2 ** 39) - 1],
    [-16_385n, -2],
    [-16_384n, -1],
    [-1n, -1],
    [0n, 0],
    [16_383n, 0],
    [16_384n, 1],
    [2n ** 53n - 1n, 2 ** 39 - 1],
    [2n ** 53n, 2 ** 39],
    [2n ** 63n - 1n, 2 ** 49 - 1],
  ])('finds the block of the id %s', (id, block) => {
    expect(piecesOf(encode(rowsOf([id])))).toEqual([[block, 1]]);
  });

  it.each([
    ['no fields', ''],
    ['too few fields', '1\t2\t3'],
    ['too many fields', '1\t2\t3\t\\N\tf\tx'],
    ['no id', '\\N\t2\t3\t\\N\tf'],
    ['no pet id', '1\t\\N\t3\t\\N\tf'],
    ['no quantity', '1\t2\t\\N\t\\N\tf'],
    ['an empty quantity', '1\t2\t\t\\N\tf'],
    ['only a sign', '1\t-\t3\t\\N\tf'],
    ['a quantity with a fraction', '1\t2\t3.5\t\\N\tf'],
    ['a pet id with leading zeros', '1\t007\t3\t\\N\tf'],
    ['more digits than an int64', '1\t123456789012345678901\t3\t\\N\tf'],
    ['the ship date infinity', '1\t2\t3\tinfinity\tf'],
    ['a ship date before our era', '1\t2\t3\t0044-03-15 00:00:00+00 BC\tf'],
    ['a ship date of five digits', '1\t2\t3\t10000-01-01 00:00:00+00\tf'],
    ['a ship date with microseconds', '1\t2\t3\t2026-11-21 00:58:46.1234+00\tf'],
    ...['-05', '-00', '+01', '+10'].map((offset): [string, string] => [
      `a ship date at ${offset}`,
      `1\t2\t3\t2026-11-21 00:58:46${offset}\tf`,
    ]),
    ['a ship date in another style', '1\t2\t3\tSat 21 Nov 00:58:46 2026 UTC\tf'],
    ['a date without a time', '1\t2\t3\t2026-11-21\tf'],
    ['no completeness', '1\t2\t3\t\\N\t\\N'],
    ['another completeness', '1\t2\t3\t\\N\tyes'],
  ])('throws for a row with %s, and names the order', (_what, row) => {
    const [id = ''] = row.split('\t');
    expect(() => encode([...rowsOf([7]), `${row}\n`, ...rowsOf([8])])).toThrow(
      `The order ${JSON.stringify(id)} cannot be listed: PostgreSQL sent ${JSON.stringify(row)}.`,
    );
  });
});

describe('OrderListEncoder with columns of text', () => {
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
  const encoder = (): OrderListEncoder => new OrderListEncoder(PIECE_ROWS_MIN, COLUMNS);

  /** PostgreSQL stores neither U+0000 nor halves of a surrogate pair. */
  const text = fc.string({ unit: 'grapheme' }).map((value) => value.replaceAll('\0', ''));
  const special = fc
    .array(fc.constantFrom(...Array.from('\\"\b\f\n\r\t\v\x01\x1f\x7f/N.,{ü€😀 \u2028')))
    .map((characters) => characters.join(''));

  it('writes every text exactly', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.oneof(text, special), fc.option(fc.oneof(text, special)))), (texts) => {
        const rows = texts.map(([title, remark], id) => rowOf(id, title, remark));
        const listed = texts.map(([title, remark], id) => ({
          id,
          title,
          ...(remark !== null && { 'remark "1"': remark }),
        }));
        expect(JSON.parse(textOf(encode(rows, encoder())))).toEqual(listed);
      }),
      { numRuns: 300 },
    );
  });

  it('tells a missing text from an empty one and from one that looks like it', () => {
    expect(textOf(encode([rowOf(1, '', null), rowOf(2, '\\N', ''), rowOf(3, 'N', 'null')], encoder()))).toBe(
      '[{"id":1,"title":""},{"id":2,"title":"\\\\N","remark \\"1\\"":""},{"id":3,"title":"N","remark \\"1\\"":"null"}]',
    );
  });

  it.each([
    ['control characters, each of which takes six bytes', '\x01'],
    ['quotes', '"'],
    ['emoji', '😀'],
  ])('keeps chunks of long texts of %s below a megabyte', (_what, character) => {
    const ids = range(120, (n) => n);
    const chunks = encode(
      ids.map((id) => rowOf(id, character.repeat(5_000), null)),
      encoder(),
    );
    expect(chunks.flatMap(idsOf)).toEqual(ids);
    expect(chunks.length).toBeGreaterThan(1);
    for (const { bytes } of chunks) {
      expect(bytes.length).toBeLessThanOrEqual(CHUNK_BYTES);
    }
  });

  it('gives an order of more than a megabyte a chunk of its own', () => {
    const rows = [rowOf(1, 'a', null), rowOf(2, '\x01'.repeat(CHUNK_BYTES / 2), null), rowOf(3, 'c', null)];
    const chunks = encode(rows, encoder());
    expect(chunks.map(idsOf)).toEqual([[1], [2], [3]]);
    expect(chunks[1]!.bytes.length).toBeGreaterThan(3 * CHUNK_BYTES);
  });

  it.each([
    ['no text where there must be one', '1\t\\N\t\\N\n'],
    ['an escape that COPY does not write', '1\ta\\x41\t\\N\n'],
    ['an escape without a character', '1\ta\\'],
    ['no end', '1\tab'],
    ['bytes that are not UTF-8', Buffer.from('1\t\xff\t\\N\n', 'latin1')],
  ])('throws for a row with %s', (_what, row) => {
    expect(() => encoder().add(Buffer.from(row))).toThrow('The order "1" cannot be listed');
  });
});
