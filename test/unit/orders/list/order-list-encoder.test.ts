import fc from 'fast-check';
import { OrderListEncoder, ROW_BYTES_MAX } from '../../../../src/orders/list/order-list-encoder.js';

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

function encode(chunks: readonly Buffer[], bufferBytes = 65_536): { text: string; buffers: Buffer[] } {
  const buffers: Buffer[] = [];
  const encoder = new OrderListEncoder(
    (bytes) => buffers.push(bytes),
    () => Buffer.alloc(bufferBytes, '?'),
  );
  for (const chunk of chunks) {
    encoder.write(chunk);
  }
  encoder.end();
  return { text: `[${Buffer.concat(buffers).toString()}]`, buffers };
}

/** Cuts bytes into chunks at these shares of their length. */
function cut(bytes: Buffer, shares: readonly number[]): Buffer[] {
  const ends = [...shares.map((share) => Math.floor(share * bytes.length)), bytes.length].sort((a, b) => a - b);
  let start = 0;
  return ends.map((end) => {
    const chunk = bytes.subarray(start, end);
    start = end;
    return chunk;
  });
}

describe('OrderListEncoder', () => {
  it('writes an empty array when there are no rows', () => {
    expect(encode([]).text).toBe('[]');
    expect(encode([Buffer.alloc(0)]).text).toBe('[]');
  });

  it.each([
    ['1\t2\t3\t\\N\tf\n', '{"id":1,"petId":2,"quantity":3,"complete":false}'],
    [
      '-9223372036854775808\t9007199254740993\t2147483647\t2026-11-21 00:58:46+00\tt\n',
      '{"id":-9223372036854775808,"petId":9007199254740993,"quantity":2147483647,"shipDate":"2026-11-21T00:58:46.000Z","complete":true}',
    ],
    ['1\t2\t3\t2026-11-21 00:58:46.1+00\tf\n', shipped('2026-11-21T00:58:46.100Z')],
    ['1\t2\t3\t2026-11-21 00:58:46.12+00\tf\n', shipped('2026-11-21T00:58:46.120Z')],
    ['1\t2\t3\t2026-11-21 00:58:46.123+00\tf\n', shipped('2026-11-21T00:58:46.123Z')],
    ['1\t2\t3\t2026-11-21 00:58:46.001+00\tf\n', shipped('2026-11-21T00:58:46.001Z')],
    ['1\t2\t3\t0001-01-01 00:00:00+00\tf\n', shipped('0001-01-01T00:00:00.000Z')],
    ['1\t2\t3\t9999-12-31 23:59:59.999+00\tf\n', shipped('9999-12-31T23:59:59.999Z')],
  ])('writes the row %j as %s', (row, json) => {
    expect(encode([Buffer.from(row)]).text).toBe(`[${json}]`);
  });

  it('writes all rows exactly for every chunk boundary and buffer size', () => {
    fc.assert(
      fc.property(
        orders,
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 30 }),
        fc.integer({ min: ROW_BYTES_MAX, max: 3 * ROW_BYTES_MAX }),
        (list, shares, bufferBytes) => {
          const rows = Buffer.from(list.map(copyRow).join(''));
          const { text } = encode(cut(rows, shares), bufferBytes);
          expect(text).toBe(`[${list.map(jsonOf).join(',')}]`);
          expect(JSON.parse(text)).toHaveLength(list.length);
        },
      ),
      { numRuns: 500 },
    );
  });

  it('writes all rows exactly when every chunk is one byte', () => {
    fc.assert(
      fc.property(orders, (list) => {
        const bytes = Buffer.from(list.map(copyRow).join(''));
        const { text } = encode(Array.from(bytes, (byte) => Buffer.of(byte)));
        expect(text).toBe(`[${list.map(jsonOf).join(',')}]`);
      }),
    );
  });

  it('reads a chunk only during write, and never changes an emitted buffer', () => {
    const [first, second] = [Buffer.from('1\t2\t3\t\\N\tf\n4\t5'), Buffer.from('\t6\t\\N\tt\n7\t8\t9\t\\N\tf\n')];
    const buffers: Buffer[] = [];
    const copies: string[] = [];
    const encoder = new OrderListEncoder(
      (bytes) => {
        buffers.push(bytes);
        copies.push(bytes.toString());
      },
      () => Buffer.alloc(ROW_BYTES_MAX),
    );
    for (const chunk of [first, second]) {
      encoder.write(chunk);
      chunk.fill('x');
    }
    encoder.end();
    expect(JSON.parse(`[${copies.join('')}]`)).toMatchObject([
      { id: 1 },
      { id: 4, petId: 5, complete: true },
      { id: 7 },
    ]);
    expect(buffers.map(String)).toEqual(copies);
  });

  it('counts the rows', () => {
    const encoder = new OrderListEncoder(
      () => undefined,
      () => Buffer.alloc(ROW_BYTES_MAX),
    );
    expect(encoder.rows).toBe(0);
    encoder.write(Buffer.from('1\t2\t3\t\\N\tf\n4\t5'));
    expect(encoder.rows).toBe(1);
    encoder.write(Buffer.from('\t6\t\\N\tt\n'));
    expect(encoder.rows).toBe(2);
  });

  it.each(['\n', '1\n', '1\t2\t3\n', '1\t2\t3\tnever\tf\n', '1\t2\t3\t2026-11-21 00:58:46-05\tf\n'])(
    'terminates on a row that PostgreSQL would not send: %j',
    (row) => {
      expect(encode([Buffer.from(row)]).text).toMatch(/^\[.*\]$/s);
    },
  );

  it('writes the longest possible row in at most ROW_BYTES_MAX bytes', () => {
    const longest = jsonOf({
      id: -(2n ** 63n),
      petId: -(2n ** 63n),
      quantity: 2_147_483_647,
      shipDate: LAST_MS,
      complete: false,
    });
    // Including the comma before it and the bracket after it.
    expect(longest.length + 2).toBeLessThanOrEqual(ROW_BYTES_MAX);
  });

  it('emits no more buffers than the rows need', () => {
    const rows = Buffer.from('1234567890\t1234567890\t1\t2026-11-21 00:58:46.123+00\tf\n'.repeat(10_000));
    const { buffers } = encode(cut(rows, [0.1, 0.25, 0.5, 0.9]));
    for (const buffer of buffers.slice(0, -1)) {
      expect(buffer.length).toBeGreaterThan(65_536 - ROW_BYTES_MAX);
    }
  });
});

function shipped(date: string): string {
  return `{"id":1,"petId":2,"quantity":3,"shipDate":"${date}","complete":false}`;
}
