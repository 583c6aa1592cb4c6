import fc from 'fast-check';
import { CHUNK_ROWS, OrderListEncoder } from '../../../../src/orders/list/order-list-encoder.js';

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

const HEADER = 'd....';

/** Rows as PostgreSQL sends them, each as a message. */
function messages(rows: readonly string[]): Buffer {
  return Buffer.from(rows.map((row) => HEADER + row).join(''));
}

/** Encodes received bytes as the chunks of a list. */
function encode(received: readonly Buffer[]): { text: string; chunks: string[] } {
  const chunks: string[] = [];
  const encoder = new OrderListEncoder(HEADER.length);
  for (const bytes of received) {
    for (let from = 0; from < bytes.length;) {
      from = encoder.write(bytes, from);
      if (encoder.isFull) {
        chunks.push(encoder.endChunk().bytes.toString());
      }
    }
  }
  if (encoder.hasChunk) {
    chunks.push(encoder.endChunk().bytes.toString());
  }
  return { text: `[${chunks.join(',')}]`, chunks };
}

/** Cuts rows into chunks at these shares of their number. */
function cut(rows: readonly string[], shares: readonly number[]): Buffer[] {
  const ends = [...shares.map((share) => Math.floor(share * rows.length)), rows.length].sort((a, b) => a - b);
  let start = 0;
  return ends.map((end) => {
    const chunk = messages(rows.slice(start, end));
    start = end;
    return chunk;
  });
}

describe('OrderListEncoder', () => {
  it('writes all rows exactly, however many arrive together', () => {
    fc.assert(
      fc.property(orders, fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 30 }), (list, shares) => {
        const { text } = encode(cut(list.map(copyRow), shares));
        expect(text).toBe(`[${list.map(jsonOf).join(',')}]`);
        expect(JSON.parse(text)).toHaveLength(list.length);
      }),
      { numRuns: 300 },
    );
  });

  it('keeps nothing of the received bytes, and no more memory than a short chunk needs', () => {
    const [first, second] = [messages(['1\t2\t3\t\\N\tf\n']), messages(['4\t5\t6\t\\N\tt\n'])];
    const encoder = new OrderListEncoder(HEADER.length);
    for (const bytes of [first, second]) {
      expect(encoder.write(bytes)).toBe(bytes.length);
      bytes.fill('x');
    }
    const { bytes, rows } = encoder.endChunk();
    expect(JSON.parse(`[${bytes.toString()}]`)).toMatchObject([{ id: 1 }, { id: 4, petId: 5, complete: true }]);
    expect(rows).toBe(2);
    expect(bytes.buffer.byteLength).toBeLessThanOrEqual(Buffer.poolSize);
    expect([encoder.hasChunk, encoder.isFull]).toEqual([false, false]);
  });

  it('writes into memory that it gets back, until it is closed', () => {
    const encoder = new OrderListEncoder(HEADER.length);
    const full = (): Buffer => {
      const row = `1\t${'9'.repeat(18)}\t2147483647\t2026-01-01 00:00:00.000+00\tf\n`;
      encoder.write(messages(Array.from({ length: CHUNK_ROWS }, () => row)));
      return encoder.endChunk().bytes;
    };
    const first = full();
    const second = full();
    expect(second.buffer).not.toBe(first.buffer);
    encoder.recycle(first);
    expect(full().buffer).toBe(first.buffer);
    encoder.recycle(first);
    encoder.close();
    encoder.recycle(second);
    expect([first.buffer, second.buffer]).not.toContain(full().buffer);
  });

  it.each([CHUNK_ROWS, 999, 40_000])(
    'begins a chunk after every 16,384 rows, %i of which arrive together',
    (together) => {
      const rows = Array.from({ length: 2 * CHUNK_ROWS + 5 }, (_, n) => `${n}\t1\t1\t\\N\tf\n`);
      const received = Array.from({ length: Math.ceil(rows.length / together) }, (_, n) =>
        messages(rows.slice(n * together, (n + 1) * together)),
      );
      const { chunks } = encode(received);
      const ids = chunks.map((chunk) => (JSON.parse(`[${chunk}]`) as { id: number }[]).map(({ id }) => id));
      expect(ids.map(({ length }) => length)).toEqual([CHUNK_ROWS, CHUNK_ROWS, 5]);
      expect(ids.flat()).toEqual(rows.map((_, n) => n));
    },
  );

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
    ['more digits than an int64', '1\t123456789012345678901\t3\t\\N\tf'],
    ['the ship date infinity', '1\t2\t3\tinfinity\tf'],
    ['a ship date before our era', '1\t2\t3\t0044-03-15 00:00:00+00 BC\tf'],
    ['a ship date of five digits', '1\t2\t3\t10000-01-01 00:00:00+00\tf'],
    ['a ship date with microseconds', '1\t2\t3\t2026-11-21 00:58:46.1234+00\tf'],
    ['a ship date with another offset', '1\t2\t3\t2026-11-21 00:58:46-05\tf'],
    ['a ship date in another style', '1\t2\t3\tSat 21 Nov 00:58:46 2026 UTC\tf'],
    ['a date without a time', '1\t2\t3\t2026-11-21\tf'],
    ['no completeness', '1\t2\t3\t\\N\t\\N'],
    ['another completeness', '1\t2\t3\t\\N\tyes'],
  ])('throws for a row with %s, and names the order', (_what, row) => {
    const rows = messages(['7\t7\t7\t\\N\tf\n', `${row}\n`, '8\t8\t8\t\\N\tf\n']);
    const [id = ''] = row.split('\t');
    expect(() => encode([rows])).toThrow(`The order ${JSON.stringify(id)} cannot be listed`);
  });

  it('writes rows as long as they can be into one chunk', () => {
    const longest = copyRow({
      id: -(2n ** 63n),
      petId: -(2n ** 63n),
      quantity: 2_147_483_647,
      shipDate: LAST_MS,
      complete: false,
    });
    const { chunks } = encode([messages(Array.from({ length: CHUNK_ROWS }, () => longest))]);
    expect(chunks.map((chunk) => (JSON.parse(`[${chunk}]`) as unknown[]).length)).toEqual([CHUNK_ROWS]);
  });
});
