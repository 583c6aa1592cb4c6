import { Readable } from 'node:stream';
import pg from 'pg';
import { ImportRejected } from '../../../src/orders/import/import-errors.js';
import { importOrders } from '../../../src/orders/import/import-orders.js';
import type { ImportFormat } from '../../../src/orders/import/stage-orders.js';
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
  readonly allowEmpty?: boolean;
  /** Size of the chunks in which the file arrives. */
  readonly chunkBytes?: number;
}

/** Imports a text as the content of a file. */
function importText(
  text: string,
  { format = 'ndjson', dryRun = false, allowEmpty = false, chunkBytes = 7 }: FileOptions = {},
): Promise<number> {
  const bytes = Buffer.from(text);
  const chunks = Array.from({ length: Math.ceil(bytes.length / chunkBytes) }, (_, index) =>
    bytes.subarray(index * chunkBytes, (index + 1) * chunkBytes),
  );
  return importOrders(client, { source: Readable.from(chunks), format, dryRun, allowEmpty });
}

async function rejectionOf(importing: Promise<number>): Promise<ImportRejected> {
  const rejection: unknown = await importing.catch((error: unknown) => error);
  expect(rejection).toBeInstanceOf(ImportRejected);
  return rejection as ImportRejected;
}

/** The errors of a rejected text, as `line field: problem`. Fails when an order was changed. */
async function errorsOf(text: string, options: FileOptions = {}): Promise<string[]> {
  const before = await storedOrders();
  const { errors } = await rejectionOf(importText(text, options));
  expect(await storedOrders()).toEqual(before);
  return errors.map(({ line, field, problem }) => `${line}${field === undefined ? '' : ` ${field}`}: ${problem}`);
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
const QUANTITY = 'an integer from 1 to 2147483647';
const STATUS = 'pending, shipped or cancelled';
const UNLESS_SHIPPED = 'unless the status is shipped (got status pending)';

describe('importOrders', () => {
  it('imports NDJSON with exact int64 values, and derives the status from complete when it is not given', async () => {
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

  it.each([1, 3, 1_000_000])('imports NDJSON and CSV that arrive in chunks of %i bytes', async (chunkBytes) => {
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

  it('imports CSV with empty fields, blank lines and TRUE as spreadsheets write it', async () => {
    const text =
      'id,petId,quantity,shipDate,complete,status\n1,7,1,,,\n\n2,7,3,2026-12-01T10:00:00Z,TRUE,\n3,7,1,,False,pending\n';
    expect(await importText(text, { format: 'csv' })).toBe(3);
    expect(await storedOrders()).toEqual([
      stored({ id: '1' }),
      stored({ id: '2', quantity: 3, ship_date: '2026-12-01T10:00:00.000', complete: true, status: 'shipped' }),
      stored({ id: '3' }),
    ]);
  });

  it('gives rows without an id, and later orders, ids above all existing and imported ones', async () => {
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

  it.each<[string, ImportFormat]>([
    ['', 'ndjson'],
    ['\n\n', 'ndjson'],
    ['petId,quantity\n', 'csv'],
  ])('rejects a file without orders unless that is allowed: %j', async (text, format) => {
    for (const dryRun of [false, true]) {
      await expect(importText(text, { format, dryRun })).rejects.toThrow('The file has no orders.');
      expect(await importText(text, { format, dryRun, allowEmpty: true })).toBe(0);
    }
    expect(await storedOrders()).toEqual(NOTHING);
  });
});

it.each([
  ['at 1 in an empty table', [], ['1', '2']],
  ['above orders that were inserted past the sequence', ['5'], ['5', '6', '7']],
  ['above an order that was inserted with the next id', ['1'], ['1', '2', '3']],
])('gives ids without a gap %s', async (_what, existing, expected) => {
  await Promise.all(existing.map((id) => insertOrder(database.db, { id })));
  await importText('petId,quantity\n7,1\n', { format: 'csv' });
  await importText('petId,quantity\n7,1\n', { format: 'csv' });
  const { rows } = await database.db.query<{ id: string }>('SELECT id FROM orders ORDER BY id');
  expect(rows.map(({ id }) => id)).toEqual(expected);
});

describe('importOrders with dryRun', () => {
  it('counts the orders of a valid file and changes nothing, not even the next id', async () => {
    expect(await importText('{"petId":7,"quantity":1}\n{"id":8,"petId":7,"quantity":1}', { dryRun: true })).toBe(2);
    expect(await storedOrders()).toEqual(NOTHING);
    const { rows } = await database.db.query('INSERT INTO orders (pet_id, quantity) VALUES (1, 1) RETURNING id');
    expect(rows).toEqual([{ id: '1' }]);
  });

  it('reports the same errors as an import, also ids of existing orders', async () => {
    await insertOrder(database.db, { id: '5' });
    const text = '{"id":5,"petId":7,"quantity":1}\n{"id":6,"petId":7,"quantity":0}\n';
    const errors = await errorsOf(text, { dryRun: true });
    expect(errors).toEqual([
      '1 id: must not be the id of an existing order (got 5)',
      `2 quantity: must be ${QUANTITY} (got 0)`,
    ]);
    expect(await errorsOf(text)).toEqual(errors);
  });
});

const order = (fields: string): string => `{"petId":7,"quantity":1${fields}}`;

describe('importOrders rejects the whole file and names line and field, for', () => {
  test.each<[string, string, string]>([
    ['no petId', '{"quantity":1}', `1 petId: is missing; it must be ${INT64}`],
    ['a null quantity', '{"petId":7,"quantity":null}', `1 quantity: is missing; it must be ${QUANTITY}`],
    ['an id beyond int64', order(',"id":9223372036854775808'), `1 id: must be ${INT64} (got 9223372036854775808)`],
    ['an id with a zero fraction', order(',"id":9007199254740993.0'), `must be ${INT64} (got 9007199254740993.0)`],
    ['an id with an exponent', order(',"id":1E2'), `1 id: must be ${INT64} (got 1E2)`],
    ['the id -0', order(',"id":-0'), `1 id: must be ${INT64} (got -0)`],
    ['a quantity with a fraction', '{"petId":7,"quantity":1.0}', `1 quantity: must be ${QUANTITY} (got 1.0)`],
    ['an id in quotes', order(',"id":"5"'), `1 id: must be ${INT64} (got "5")`],
    ['a petId that is an array', '{"petId":[1],"quantity":1}', `1 petId: must be ${INT64} (got [1])`],
    ['a quantity of 0', '{"petId":7,"quantity":0}', `1 quantity: must be ${QUANTITY} (got 0)`],
    ['a quantity beyond int32', '{"petId":7,"quantity":2147483648}', `1 quantity: must be ${QUANTITY}`],
    ['infinity', order(',"shipDate":"infinity"'), `1 shipDate: must be ${TIME} (got infinity)`],
    ['a time as a number', order(',"shipDate":1790000000'), `1 shipDate: must be ${TIME} (got 1790000000)`],
    ['complete as text', order(',"complete":"true"'), '1 complete: must be true or false (got "true")'],
    ['an unknown status', order(',"status":"placed"'), `1 status: must be ${STATUS} (got placed)`],
    [
      'complete but pending',
      order(',"complete":true,"status":"pending"'),
      `1 complete: must be false ${UNLESS_SHIPPED}`,
    ],
    ['an unknown field', order(',"qty":1'), `1 qty: is not a field of an order; the fields are ${FIELDS}`],
    ['a field twice', order(',"quantity":2'), '1: is not valid JSON: '],
    ['an array in place of an object', '[1]', '1: must be a JSON object (got [1])'],
    ['a truncated line', `${order('')}\n{"petId":`, '2: is not valid JSON: '],
    ['an overlong line', `${order('')}\n{"petId":${'1'.repeat(200_000)}`, '2: must have at most 65536 characters'],
  ])('NDJSON with %s', async (_what, text, expected) => {
    const errors = await errorsOf(text, { chunkBytes: 4_096 });
    expect(errors).toEqual([expect.stringContaining(expected)]);
  });

  test.each<[string, string, string]>([
    ['an empty file', '', '1: must be a header with the names of the fields'],
    ['an unknown field', 'petId,quantity,colour\n', `1 colour: is not a field of an order; the fields are ${FIELDS}`],
    ['a field in the wrong case', 'petid,petId,quantity\n', '1 petid: is not a field of an order'],
    ['a field twice', 'petId,quantity,petId\n', '1 petId: occurs twice in the header'],
    ['no petId in the header', 'quantity\n1\n', '2 petId: is missing; it must be'],
    ['an empty petId', 'petId,quantity\n7,1\n,1\n', `3 petId: is missing; it must be ${INT64}`],
    ['a missing value', 'id,petId,quantity\n1,2\n', '2: must have 3 values, as the header (got 2)'],
    ['an extra value', 'petId,quantity\n1,2,3\n', '2: must have 2 values, as the header (got 3)'],
    ['yes in place of true', 'petId,quantity,complete\n7,1,yes\n', '2 complete: must be true or false (got yes)'],
    ['an unclosed quote', 'petId,quantity\n7,1\n7,"1\n', 'is not valid CSV: Quote Not Closed'],
    ['an overlong quoted value', `petId,quantity\n7,"${'1'.repeat(200_000)}`, 'is not valid CSV: Max Record Size'],
  ])('CSV with %s', async (_what, text, expected) => {
    const errors = await errorsOf(text, { format: 'csv', chunkBytes: 4_096 });
    expect(errors).toEqual([expect.stringContaining(expected)]);
  });

  it('an error after line breaks in quotes, by the line of the file', async () => {
    const errors = await errorsOf('petId,quantity\n"\n\n7",1\n7,x\n', { format: 'csv' });
    expect(errors.map((error) => error.split(':')[0])).toEqual(['2 petId', '5 quantity']);
  });

  it('an id that occurs twice, with both lines', async () => {
    const text = [order(',"id":9'), order(',"id":-1'), '', order(',"id":9'), order(''), order(',"id":9')].join('\n');
    expect(await errorsOf(text)).toEqual([
      '4 id: must be unique in the file (got 9, as in line 1)',
      '6 id: must be unique in the file (got 9, as in line 1)',
    ]);
  });

  it('a missing id when the next one is in use near the end of the sequence', async () => {
    await database.db.query("SELECT setval('orders_id_seq', 4611686018427387903)");
    await insertOrder(database.db, { id: '4611686018427387904' });
    const importing = importText('{"id":5,"petId":7,"quantity":1}\n{"petId":7,"quantity":1}');
    await expect(importing).rejects.toThrow(
      /the next id of an order without one, is not free .* give every order an id/,
    );
    expect(await storedOrders()).toHaveLength(1);
  });

  it('all errors of one row and of several rows, in the order of the lines', async () => {
    const text = ['{"petId":"7","quantity":0,"colour":1}', order(''), '{', order(',"id":0.5')].join('\n');
    expect((await errorsOf(text)).map((error) => error.split(':')[0])).toEqual([
      '1 colour',
      '1 petId',
      '1 quantity',
      '3',
      '4 id',
    ]);
  });

  it.each<[ImportFormat, string, string, string, RegExp]>([
    ['ndjson', '', `${order('')}\n`.repeat(5_000), '{"petId":1}\n', /^5001 quantity: /],
    ['csv', 'petId,quantity\n', '7,1\n'.repeat(1_200), '7,0\n', /^1202 quantity: /],
  ])('an error after many valid orders of %s', async (format, head, valid, wrong, expected) => {
    const text = head + valid + wrong + valid;
    expect(await errorsOf(text, { format, chunkBytes: 4_096 })).toEqual([expect.stringMatching(expected)]);
  });

  it('the first 20 errors, without reading the rest of the file', async () => {
    let read = 0;
    async function* endless(): AsyncGenerator<Buffer> {
      for (; read < 100_000; read++) {
        yield await Promise.resolve(Buffer.from('{"petId":1}\n'.repeat(5)));
      }
    }
    const { errors, message } = await rejectionOf(
      importOrders(client, { source: endless(), format: 'ndjson', dryRun: false }),
    );
    expect(errors.map(({ line }) => line)).toEqual(Array.from({ length: 20 }, (_, index) => index + 1));
    expect(message).toMatch(/\nThe rest of the file was not checked\.$/);
    expect(read).toBeLessThan(100);
  });

  const FIELD = /^ {2}- line 1, {2}\[2J FAKEx+… is not a f/;
  const LONG = 'x'.repeat(9_999);

  it.each<[string, string, ImportFormat, RegExp]>([
    ['value', order(`,"status":"\\u001b[2J${LONG}"`), 'ndjson', /^ {2}- line 1, status must be pending/],
    ['field', order(`,"\\u001b[2J\\nFAKE${LONG}":1`), 'ndjson', FIELD],
    ['column', `petId,quantity,"\u001b[2J\nFAKE${LONG}"\n`, 'csv', FIELD],
  ])('a long %s with control characters, which the message omits', async (_what, text, format, expected) => {
    const [title, problem, ...more] = (await rejectionOf(importText(text, { format }))).message.split('\n');
    expect(title).toBe('Errors in the file; nothing was imported:');
    expect(problem).toMatch(expected);
    expect(problem).not.toContain('\u001b');
    expect(problem!.length).toBeLessThan(400);
    expect(more).toEqual([]);
  });
});

it('importOrders leaves nothing behind when reading the file fails', async () => {
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
