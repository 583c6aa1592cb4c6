import { Readable } from 'node:stream';
import pg from 'pg';
import { ImportRejected } from '../../../src/orders/import/import-errors.js';
import { type ImportFormat, importOrders } from '../../../src/orders/import/import-orders.js';
import { insertOrder } from '../../helpers/builders.js';
import { createTestDatabase, type TestDatabase } from '../../helpers/test-database.js';

let database: TestDatabase;
let client: pg.Client;
beforeAll(async () => {
  database = await createTestDatabase();
  client = new pg.Client(database.url);
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await database.drop();
});
beforeEach(() => database.db.query('TRUNCATE orders RESTART IDENTITY'));

const NOTHING: unknown[] = [];

interface FileOptions {
  readonly format?: ImportFormat;
  readonly dryRun?: boolean;
  /** How many bytes arrive at once. */
  readonly chunkBytes?: number;
}

/** Imports a text as the file that the command would read. */
function importText(
  text: string,
  { format = 'ndjson', dryRun = false, chunkBytes = 7 }: FileOptions = {},
): Promise<number> {
  const bytes = Buffer.from(text);
  const chunks = Array.from({ length: Math.ceil(bytes.length / chunkBytes) }, (_, index) =>
    bytes.subarray(index * chunkBytes, (index + 1) * chunkBytes),
  );
  return importOrders(client, { source: Readable.from(chunks), format, dryRun });
}

/** The faults for which a text is refused, as `line field: problem`; no order may have come of it. */
async function faultsOf(text: string, options: FileOptions = {}): Promise<string[]> {
  const before = await storedOrders();
  const refusal: unknown = await importText(text, options).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(ImportRejected);
  expect(await storedOrders()).toEqual(before);
  return (refusal as ImportRejected).faults.map(
    ({ line, field, problem }) => `${line}${field === undefined ? '' : ` ${field}`}: ${problem}`,
  );
}

async function storedOrders(): Promise<unknown[]> {
  const { rows } = await database.db.query<Record<string, unknown>>(
    `SELECT id, pet_id, quantity, to_char(ship_date AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS') AS ship_date, complete,
            status::text, cancelled_at IS NOT NULL AS has_cancelled_at, created_at > now() - interval '1 minute' AS is_new
     FROM orders ORDER BY id`,
  );
  return rows;
}

const stored = (overrides: Record<string, unknown>): Record<string, unknown> => ({
  pet_id: '7',
  quantity: 1,
  ship_date: null,
  complete: false,
  status: 'pending',
  has_cancelled_at: false,
  is_new: true,
  ...overrides,
});

const INT64_MAX = '9223372036854775807';
const INT64 = 'an integer from -9223372036854775808 to 9223372036854775807';
const TIME = 'an RFC 3339 time with an offset, like 2026-12-01T10:00:00Z';
const FIELDS = 'id, petId, quantity, shipDate, complete, status';

describe('a file of orders is imported', () => {
  it('from NDJSON, with every digit of an int64 and the state that the fields say', async () => {
    const text = [
      '{"id":9007199254740993,"petId":9223372036854775807,"quantity":2147483647,"shipDate":"2026-12-01T12:00:00.123+02:00"}',
      '{"id":-9223372036854775808,"petId":-9007199254740993,"quantity":1,"status":"shipped","complete":true}',
      '  { "quantity" : 1 , "petId" : 7, "id":3, "complete": true, "shipDate": null, "status": null }\r',
      '',
      '{"id":4,"petId":7,"quantity":1,"status":"cancelled"}',
      '{"id":5,"petId":7,"quantity":1,"status":"shipped","complete":false,"shipDate":"0001-01-01T00:00:00Z"}',
      `{"id":${INT64_MAX},"petId":7,"quantity":1}`,
    ].join('\n');
    expect(await importText(text)).toBe(6);
    expect(await storedOrders()).toEqual([
      stored({ id: '-9223372036854775808', pet_id: '-9007199254740993', status: 'shipped', complete: true }),
      stored({ id: '3', status: 'shipped', complete: true }),
      stored({ id: '4', status: 'cancelled', has_cancelled_at: true }),
      stored({ id: '5', status: 'shipped', ship_date: '0001-01-01T00:00:00.000' }),
      stored({
        id: '9007199254740993',
        pet_id: INT64_MAX,
        quantity: 2_147_483_647,
        ship_date: '2026-12-01T10:00:00.123',
      }),
      stored({ id: INT64_MAX }),
    ]);
  });

  it.each([1, 3, 1_000_000])('whatever the chunks are that it arrives in: %i bytes', async (chunkBytes) => {
    const csv = '\uFEFFpetId,quantity,status,id\r\n7,1,shipped,1\r\n"7", "1" ,"",2\r\n7,1,cancelled,9007199254740993';
    expect(await importText(csv, { format: 'csv', chunkBytes })).toBe(3);
    const ndjson = '\uFEFF{"petId":7,"quantity":1,"id":3}\r\n\r\n{"petId":7,"quantity":1,"id":4}\r\n';
    expect(await importText(ndjson, { chunkBytes })).toBe(2);
    expect(await storedOrders()).toEqual([
      stored({ id: '1', status: 'shipped' }),
      stored({ id: '2' }),
      stored({ id: '3' }),
      stored({ id: '4' }),
      stored({ id: '9007199254740993', status: 'cancelled', has_cancelled_at: true }),
    ]);
  });

  it('from CSV, where an empty field has no value and a spreadsheet writes TRUE', async () => {
    const text =
      'id,petId,quantity,shipDate,complete,status\n1,7,1,,,\n\n2,7,3,2026-12-01T10:00:00Z,TRUE,\n3,7,1,,False,pending\n';
    expect(await importText(text, { format: 'csv' })).toBe(3);
    expect(await storedOrders()).toEqual([
      stored({ id: '1' }),
      stored({ id: '2', quantity: 3, ship_date: '2026-12-01T10:00:00.000', complete: true, status: 'shipped' }),
      stored({ id: '3' }),
    ]);
  });

  it('beside orders that exist; what has no id gets the next ones, and so does what comes later', async () => {
    await insertOrder(database.db, { id: '2', pet_id: '1' });
    const row = (petId: number, id = ''): string => `${id},${petId},1\n`;
    const text = `id,petId,quantity\n${row(11)}${row(12, '40')}${row(13)}${row(14, '9')}${row(15, INT64_MAX)}`;
    expect(await importText(text, { format: 'csv' })).toBe(5);
    await database.db.query('INSERT INTO orders (pet_id, quantity) VALUES (16, 1)');
    const { rows } = await database.db.query('SELECT id, pet_id FROM orders ORDER BY id');
    expect(rows).toEqual([
      { id: '2', pet_id: '1' },
      { id: '9', pet_id: '14' },
      { id: '40', pet_id: '12' },
      { id: '41', pet_id: '11' },
      { id: '42', pet_id: '13' },
      { id: '43', pet_id: '16' },
      { id: INT64_MAX, pet_id: '15' },
    ]);
  });

  it('from CSV of more rows than are passed on at once', async () => {
    const text = `petId,quantity\n${'7,1\n'.repeat(1_200)}`;
    expect(await importText(text, { format: 'csv', chunkBytes: 4_096 })).toBe(1_200);
    expect(await storedOrders()).toHaveLength(1_200);
  });

  it('when it holds no order at all', async () => {
    expect(await importText('')).toBe(0);
    expect(await importText('\n\n')).toBe(0);
    expect(await importText('petId,quantity\n', { format: 'csv' })).toBe(0);
    expect(await storedOrders()).toEqual(NOTHING);
  });

  it('twice in a row on one connection, also after a refusal', async () => {
    await importText('{"petId":7,"quantity":1}');
    await faultsOf('{"petId":7,"quantity":0}');
    await importText('{"petId":7,"quantity":1}');
    expect(await storedOrders()).toHaveLength(2);
  });

  it('while somebody else reads and cancels orders', async () => {
    const id = await insertOrder(database.db, { id: '1' });
    const other = await database.db.connect();
    try {
      await other.query('BEGIN');
      await other.query("UPDATE orders SET status = 'cancelled', cancelled_at = now() WHERE id = $1", [id]);
      expect(await importText('{"petId":7,"quantity":1,"id":2}')).toBe(1);
      await other.query('COMMIT');
    } finally {
      other.release();
    }
    expect(await storedOrders()).toHaveLength(2);
  });
});

it('orders without ids, in an empty table, begin with 1', async () => {
  expect(await importText('petId,quantity\n7,1\n8,1\n', { format: 'csv' })).toBe(2);
  expect(await storedOrders()).toEqual([stored({ id: '1' }), stored({ id: '2', pet_id: '8' })]);
});

it('orders without ids go above those that the sequence has not heard of, and leave no gap', async () => {
  await insertOrder(database.db, { id: '5' });
  await importText('petId,quantity\n7,1\n', { format: 'csv' });
  await importText('petId,quantity\n7,1\n', { format: 'csv' });
  const { rows } = await database.db.query<{ id: string }>('SELECT id FROM orders ORDER BY id');
  expect(rows.map(({ id }) => id)).toEqual(['5', '6', '7']);
});

describe('a dry run', () => {
  it('counts the orders of a good file and leaves nothing, not even a gap in the ids', async () => {
    expect(await importText('{"petId":7,"quantity":1}\n{"id":8,"petId":7,"quantity":1}', { dryRun: true })).toBe(2);
    expect(await storedOrders()).toEqual(NOTHING);
    const { rows } = await database.db.query('INSERT INTO orders (pet_id, quantity) VALUES (1, 1) RETURNING id');
    expect(rows).toEqual([{ id: '1' }]);
  });

  it('finds what an import would find, also against the orders that exist', async () => {
    await insertOrder(database.db, { id: '5' });
    const text = '{"id":5,"petId":7,"quantity":1}\n{"id":6,"petId":7,"quantity":0}\n';
    const faults = await faultsOf(text, { dryRun: true });
    expect(faults).toEqual([
      '1 id: 5 is that of an order that exists already',
      '2 quantity: must be a whole number from 1 to 2147483647, not 0',
    ]);
    expect(await faultsOf(text)).toEqual(faults);
  });
});

const order = (fields: string): string => `{"petId":7,"quantity":1${fields}}`;

describe('a file with a fault is refused as a whole, by the line and the field:', () => {
  test.each<[string, string, string]>([
    ['no petId', '{"quantity":1}', `1 petId: is missing; it must be ${INT64}`],
    ['a null quantity', '{"petId":7,"quantity":null}', '1 quantity: is missing; it must be a whole number'],
    ['an id beyond int64', order(',"id":9223372036854775808'), `1 id: must be ${INT64}, not 9223372036854775808`],
    ['an id with a fraction', order(',"id":1.5'), `1 id: must be ${INT64}, not 1.5`],
    ['an id in quotes', order(',"id":"5"'), `1 id: must be ${INT64}, not the string "5"`],
    ['a petId that is an array', '{"petId":[1],"quantity":1}', `1 petId: must be ${INT64}, not an array`],
    ['a quantity of 0', '{"petId":7,"quantity":0}', '1 quantity: must be a whole number from 1 to 2147483647, not 0'],
    ['a quantity beyond int32', '{"petId":7,"quantity":2147483648}', '1 quantity: must be a whole number from 1 to'],
    ['a negative quantity', '{"petId":7,"quantity":-1}', '1 quantity: must be a whole number from 1 to'],
    ['a date alone', order(',"shipDate":"2026-12-01"'), `1 shipDate: must be ${TIME}, not 2026-12-01`],
    ['a time without an offset', order(',"shipDate":"2026-12-01T10:00:00"'), `1 shipDate: must be ${TIME}`],
    ['a day that there is not', order(',"shipDate":"2026-02-30T10:00:00Z"'), `1 shipDate: must be ${TIME}`],
    ['a year before the first', order(',"shipDate":"0000-12-31T23:59:59Z"'), `1 shipDate: must be ${TIME}`],
    ['a year after the last', order(',"shipDate":"9999-12-31T23:59:59-01:00"'), `1 shipDate: must be ${TIME}`],
    ['infinity', order(',"shipDate":"infinity"'), `1 shipDate: must be ${TIME}, not infinity`],
    ['a time as a number', order(',"shipDate":1790000000'), `1 shipDate: must be ${TIME}, not the number 1790000000`],
    ['complete as text', order(',"complete":"true"'), '1 complete: must be true or false, not the string "true"'],
    ['complete as a number', order(',"complete":1'), '1 complete: must be true or false, not the number 1'],
    [
      'a status that is none',
      order(',"status":"placed"'),
      '1 status: must be pending, shipped or cancelled, not placed',
    ],
    [
      'complete but pending',
      order(',"complete":true,"status":"pending"'),
      '1 complete: cannot be true for an order that is pending: only a shipped order is complete',
    ],
    ['a field that nobody knows', order(',"qty":1'), `1 qty: is no field of an order; the fields are ${FIELDS}`],
    ['a field twice', order(',"quantity":2'), '1: is not JSON: '],
    ['no object', '[1]', '1: must be an object, not an array'],
    ['a number alone', '17', '1: must be an object, not the number 17'],
    ['no JSON', `${order('')}\n{"petId":`, '2: is not JSON: '],
    ['a line without end', `${order('')}\n{"petId":${'1'.repeat(200_000)}`, '2: is longer than 65536 characters'],
  ])('NDJSON with %s', async (_what, text, fault) => {
    const faults = await faultsOf(text, { chunkBytes: 4_096 });
    expect(faults).toEqual([expect.stringContaining(fault)]);
  });

  test.each<[string, string, string]>([
    ['no header, since it is empty', '', '1: must be a header that names the fields'],
    [
      'a field that nobody knows',
      'petId,quantity,colour\n',
      `1 colour: is no field of an order; the fields are ${FIELDS}`,
    ],
    ['a field in other letters', 'petid,petId,quantity\n', '1 petid: is no field of an order'],
    ['a field twice', 'petId,quantity,petId\n', '1 petId: is named twice'],
    ['no petId', 'quantity\n1\n', '1 petId: is missing from the header'],
    ['an empty petId', 'petId,quantity\n7,1\n,1\n', `3 petId: is missing; it must be ${INT64}`],
    ['a value too few', 'id,petId,quantity\n1,2\n', '2: has 2 values, but the header names 3 fields'],
    ['a value too many', 'petId,quantity\n1,2,3\n', '2: has 3 values, but the header names 2 fields'],
    ['an id with an exponent', 'id,petId,quantity\n1e3,7,1\n', `2 id: must be ${INT64}, not 1e3`],
    ['a quantity with a sign', 'petId,quantity\n7,+1\n', '2 quantity: must be a whole number'],
    ['yes for true', 'petId,quantity,complete\n7,1,yes\n', '2 complete: must be true or false, not yes'],
    ['a quote that is not closed', 'petId,quantity\n7,1\n7,"1\n', 'is not CSV: Quote Not Closed'],
    ['a quote without end', `petId,quantity\n7,"${'1'.repeat(200_000)}`, 'is not CSV: Max Record Size'],
  ])('CSV with %s', async (_what, text, fault) => {
    const faults = await faultsOf(text, { format: 'csv', chunkBytes: 4_096 });
    expect(faults).toEqual([expect.stringContaining(fault)]);
  });

  it('a fault behind line breaks in quotes, by the line that an editor shows', async () => {
    const faults = await faultsOf('petId,quantity\n"\n\n7",1\n7,x\n', { format: 'csv' });
    expect(faults.map((fault) => fault.split(':')[0])).toEqual(['2 petId', '5 quantity']);
  });

  it('an id twice, told by both lines', async () => {
    const text = [order(',"id":9'), order(',"id":-1'), '', order(',"id":9'), order(''), order(',"id":9')].join('\n');
    expect(await faultsOf(text)).toEqual(['4 id: 9 stands in line 1 already', '6 id: 9 stands in line 1 already']);
  });

  it('all faults of a row and of several rows, in the order of the lines', async () => {
    const text = ['{"petId":"7","quantity":0,"colour":1}', order(''), '{', order(',"id":0.5')].join('\n');
    expect((await faultsOf(text)).map((fault) => fault.split(':')[0])).toEqual([
      '1 colour',
      '1 petId',
      '1 quantity',
      '3',
      '4 id',
    ]);
  });

  it('a fault far behind many good orders', async () => {
    const good = `${order('')}\n`.repeat(5_000);
    expect(await faultsOf(`${good}{"petId":1}\n${good}`, { chunkBytes: 65_536 })).toEqual([
      expect.stringMatching(/^5001 quantity: /),
    ]);
  });

  it('a fault far behind many good rows of CSV', async () => {
    const good = '7,1\n'.repeat(1_200);
    expect(await faultsOf(`petId,quantity\n${good}7,0\n${good}`, { format: 'csv', chunkBytes: 4_096 })).toEqual([
      expect.stringMatching(/^1202 quantity: /),
    ]);
  });

  it('the first twenty faults, and no more of the file is read', async () => {
    let read = 0;
    async function* endless(): AsyncGenerator<Buffer> {
      for (; read < 100_000; read++) {
        yield await Promise.resolve(Buffer.from('{"petId":1}\n'.repeat(5)));
      }
    }
    const refusal: unknown = await importOrders(client, { source: endless(), format: 'ndjson', dryRun: false }).catch(
      (error: unknown) => error,
    );
    expect(refusal).toBeInstanceOf(ImportRejected);
    expect((refusal as ImportRejected).faults.map(({ line }) => line)).toEqual(
      Array.from({ length: 20 }, (_, index) => index + 1),
    );
    expect((refusal as ImportRejected).message).toMatch(
      /^These are the first 20 faults of the file; nothing was imported:\n/,
    );
    expect(read).toBeLessThan(100);
  });

  it('without a control character or a long value in the message', async () => {
    const refusal: unknown = await importText(order(`,"status":"\\u001b[2J${'x'.repeat(9_999)}"`)).catch(
      (error: unknown) => error,
    );
    const { message } = refusal as ImportRejected;
    expect(message).toMatch(/^The file has a fault; nothing was imported:\n {2}- line 1, status must be pending/);
    expect(message.split('\n')).toHaveLength(2);
    expect(message).not.toContain('\u001b');
    expect(message.length).toBeLessThan(400);
  });
});

describe('what fails on the way leaves nothing behind:', () => {
  it('a file that cannot be read to its end', async () => {
    async function* broken(text: string): AsyncGenerator<Buffer> {
      yield await Promise.resolve(Buffer.from(text));
      throw new Error('the disk is gone');
    }
    const ndjson = broken(`${order('')}\n`.repeat(3_000));
    await expect(importOrders(client, { source: ndjson, format: 'ndjson', dryRun: false })).rejects.toThrow('disk');
    const csv = broken(`petId,quantity\n${'7,1\n'.repeat(3_000)}`);
    await expect(importOrders(client, { source: csv, format: 'csv', dryRun: false })).rejects.toThrow('disk');
    expect(await storedOrders()).toEqual(NOTHING);
  });

  it('a rule of the database that the file breaks', async () => {
    await database.db.query('ALTER TABLE orders ADD CONSTRAINT no_thirteen CHECK (pet_id <> 13)');
    try {
      await expect(importText(`${order('')}\n{"petId":13,"quantity":1}`)).rejects.toThrow('no_thirteen');
      expect(await storedOrders()).toEqual(NOTHING);
    } finally {
      await database.db.query('ALTER TABLE orders DROP CONSTRAINT no_thirteen');
    }
  });

  it('a server that goes away', async () => {
    const own = new pg.Client(database.url);
    own.on('error', () => undefined);
    await own.connect();
    const { rows } = await own.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    async function* interrupted(): AsyncGenerator<Buffer> {
      yield Buffer.from(`${order('')}\n`.repeat(3_000));
      await database.db.query('SELECT pg_terminate_backend($1, 5000)', [rows[0]?.pid]);
      yield Buffer.from(`${order('')}\n`.repeat(3_000));
    }
    await expect(importOrders(own, { source: interrupted(), format: 'ndjson', dryRun: false })).rejects.toThrow(
      /terminat|ECONNRESET|EPIPE/,
    );
    expect(await storedOrders()).toEqual(NOTHING);
  });
});
