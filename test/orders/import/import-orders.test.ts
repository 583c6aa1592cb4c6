import { Readable } from 'node:stream';
import pg from 'pg';
import { importOrders, type ImportOptions } from '../../../src/orders/import/import-orders.js';
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

interface FileOptions extends ImportOptions {
  /** Size of the chunks in which the file arrives. */
  readonly chunkBytes?: number;
}

/** Imports a text as the content of a file. */
function importText(text: string, { chunkBytes = 7, ...options }: FileOptions = {}): Promise<number> {
  const bytes = Buffer.from(text);
  const chunks = Array.from({ length: Math.ceil(bytes.length / chunkBytes) }, (_, index) =>
    bytes.subarray(index * chunkBytes, (index + 1) * chunkBytes),
  );
  return importOrders(client, Readable.from(chunks), options);
}

/** The lines of the message of a rejected import below its title. */
async function problemsOf(importing: Promise<number>): Promise<string[]> {
  const { message } = (await importing.catch((error: unknown) => error)) as Error;
  const [title, ...problems] = message.split('\n');
  expect(title).toBe('Errors in the file; nothing was imported:');
  return problems;
}

/** The errors of a rejected text, as `line field: problem`. Fails when an order was changed. */
async function errorsOf(text: string, options: FileOptions = {}): Promise<string[]> {
  const before = await storedOrders();
  const problems = await problemsOf(importText(text, options));
  expect(await storedOrders()).toEqual(before);
  return problems.map((line) => line.replace(/^ {2}- line (\d+)(?:,( .+?))? (?=(?:is|has|must|occurs) )/, '$1$2: '));
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
const TIME = 'an RFC 3339 time with an offset, like 2026-12-01T10:00:00Z, or none';
const FIELDS = 'id,petId,quantity,shipDate,complete,status';
const QUANTITY = 'an integer from 1 to 2147483647';
const STATUS = 'pending, shipped or cancelled';
const INVALID = 'is not valid CSV; perhaps a quote that opens in it is not closed ';
/** A row of valid values, one for each of the fields. */
const VALID = '1,7,1,none,false,pending';

describe('importOrders', () => {
  it('imports exact int64 values', async () => {
    const text = [
      FIELDS,
      '9007199254740993,9223372036854775807,2147483647,2026-12-01T12:00:00.123+02:00,false,pending',
      '-9223372036854775808,-9007199254740993,1,none,true,shipped',
      ' 3 , 7 , 1 , none , TRUE , shipped \r',
      '4,7,1,none,false,cancelled',
      '5,7,1,0001-01-01T00:00:00Z,False,shipped',
      `${INT64_MAX},7,1,none,FALSE,pending`,
      '',
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

  it.each([1, 3, 1_000_000])('imports a file that arrives in chunks of %i bytes', async (chunkBytes) => {
    const csv =
      '\uFEFF"petId",quantity,status,id\r\n7,1,shipped,1\r\n"7", "1" ,"pending",2\r\n\r\n7,1,cancelled,9007199254740993\r\n';
    expect(await importText(csv, { chunkBytes })).toBe(3);
    expect(await storedOrders()).toEqual([
      stored({ id: '1', status: 'shipped' }),
      stored({ id: '2' }),
      stored({ id: '9007199254740993', status: 'cancelled', has_cancelled_at: true }),
    ]);
  });

  it('gives rows without an id, and later orders, ids above all existing and imported ones', async () => {
    await insertOrder(database.db, { id: '2', pet_id: '1' });
    expect(await importText(`id,petId,quantity\n40,12,1\n9,14,1\n${INT64_MAX},15,1\n`)).toBe(3);
    expect(await importText('petId,quantity\n11,1\n13,1\n')).toBe(2);
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
});

it.each([
  ['at 1 in an empty table', [], ['1', '2']],
  ['above orders that were inserted past the sequence', ['5'], ['5', '6', '7']],
  ['above an order that was inserted with the next id', ['1'], ['1', '2', '3']],
])('gives ids without a gap %s', async (_what, existing, expected) => {
  await Promise.all(existing.map((id) => insertOrder(database.db, { id })));
  await importText('petId,quantity\n7,1\n');
  await importText('petId,quantity\n7,1\n');
  const { rows } = await database.db.query<{ id: string }>('SELECT id FROM orders ORDER BY id');
  expect(rows.map(({ id }) => id)).toEqual(expected);
});

describe('importOrders with dryRun', () => {
  it('counts the orders of a valid file and changes nothing, not even the next id', async () => {
    expect(await importText('petId,quantity\n7,1\n8,1\n', { dryRun: true })).toBe(2);
    expect(await storedOrders()).toEqual(NOTHING);
    const { rows } = await database.db.query('INSERT INTO orders (pet_id, quantity) VALUES (1, 1) RETURNING id');
    expect(rows).toEqual([{ id: '1' }]);
  });

  it('reports the same errors as an import, also ids of existing orders', async () => {
    await insertOrder(database.db, { id: '5' });
    const text = 'id,petId,quantity\n5,7,1\n6,7,0\n';
    const errors = await errorsOf(text, { dryRun: true });
    expect(errors).toEqual([
      '2 id: must not be the id of an existing order (got 5)',
      `3 quantity: must be ${QUANTITY} (got 0)`,
    ]);
    expect(await errorsOf(text)).toEqual(errors);
  });
});

describe('importOrders and the end of a file', () => {
  const WHOLE = 'petId,quantity,status\n7,25,shipped\n8,25,shipped\n';
  const CUT_OFF = '3: has no line end and may have been cut off; if the file is complete, pass --complete';

  it('stores nothing of a file that is cut off in its last row, wherever', async () => {
    for (let length = WHOLE.lastIndexOf('8') + 1; length < WHOLE.length; length++) {
      expect(await errorsOf(WHOLE.slice(0, length))).toContain(CUT_OFF);
    }
  });

  it('rejects a last field that is empty, also with a line end', async () => {
    expect(await errorsOf(WHOLE.replace(/shipped\n$/, '\n'))).toEqual([`3 status: is empty; it must be ${STATUS}`]);
  });

  it('imports a last row without a line end when the file is said to be complete', async () => {
    expect(await importText(WHOLE.trimEnd(), { complete: true })).toBe(2);
  });

  it.each(['\n', '\r\n', '\r', '\n,,\n \n', '\r\n ,"",', '\r\n\r\n'])(
    'imports a file that ends with %j',
    async (end) => {
      expect(await importText(WHOLE.trimEnd() + end)).toBe(2);
    },
  );
});

describe('importOrders and line ends', () => {
  it.each([
    ['CRLF', 'petId,quantity\r\n', '7,1\r\n'],
    ['CR', 'petId,quantity\r', '7,1\r'],
    ['LF after a header with CRLF', 'petId,quantity\r\n', '7,1\n'],
    ['CRLF after a header with LF', 'petId,quantity\n', '7,1\r\n'],
    ['one LF among CRLF', 'petId,quantity\r\n7,1\n', '7,1\r\n'],
  ])('numbers the lines of a file with %s, also after quoted and blank ones', async (_what, header, row) => {
    const end = row.slice(3);
    const first = header.split(/\r\n|[\r\n]/).length;
    const errors = await errorsOf(`${header}${row}${end},${end}"${end}7",1${end}${row.replace('1', 'x')}`);
    const line = (offset: number): number => first + offset;
    expect(errors.map((error) => error.split(':')[0])).toEqual([`${line(3)} petId`, `${line(5)} quantity`]);
  });

  it('imports UTF-16 with a byte order mark', async () => {
    const bytes = Buffer.from('\uFEFFpetId,quantity\r\n7,1\r\n', 'utf16le');
    expect(await importOrders(client, Readable.from([bytes]))).toBe(1);
  });

  it('takes what it has no column for from complete, or the default', async () => {
    expect(await importText('petId,quantity,complete\n7,1,true\n7,1,false\n')).toBe(2);
    expect(await storedOrders()).toEqual([stored({ id: '1', status: 'shipped', complete: true }), stored({ id: '2' })]);
  });
});

describe('importOrders rejects the whole file and names line and field, for', () => {
  test.each<[string, string, string]>([
    ['id', '9223372036854775808', `must be ${INT64} (got 9223372036854775808)`],
    ['id', '9007199254740993.0', `must be ${INT64} (got 9007199254740993.0)`],
    ['id', '1E2', `must be ${INT64} (got 1E2)`],
    ['id', '-0', `must be ${INT64} (got -0)`],
    ['id', '', `is empty; it must be ${INT64}`],
    ['petId', '007', `must be ${INT64} (got 007)`],
    ['petId', '', `is empty; it must be ${INT64}`],
    ['quantity', '0', `must be ${QUANTITY} (got 0)`],
    ['quantity', '2147483648', `must be ${QUANTITY} (got 2147483648)`],
    ['quantity', '1e3', `must be ${QUANTITY} (got 1e3)`],
    ['quantity', '0x12', `must be ${QUANTITY} (got 0x12)`],
    ['quantity', ' ', `is empty; it must be ${QUANTITY}`],
    ['shipDate', 'infinity', `must be ${TIME} (got infinity)`],
    ['shipDate', '""', `is empty; it must be ${TIME}`],
    ['complete', 'yes', 'must be true or false (got yes)'],
    ['complete', 'trueish', 'must be true or false (got trueish)'],
    ['complete', 'untrue', 'must be true or false (got untrue)'],
    ['complete', '', 'is empty; it must be true or false'],
    ['complete', 'TRUE', 'must be false unless the status is shipped (got TRUE)'],
    ['status', 'placed', `must be ${STATUS} (got placed)`],
    ['status', '', `is empty; it must be ${STATUS}`],
  ])('%s %j', async (field, value, problem) => {
    const names = FIELDS.split(',');
    const values = VALID.split(',').with(names.indexOf(field), value);
    expect(await errorsOf(`${FIELDS}\n${values.join()}\n`)).toEqual([`2 ${field}: ${problem}`]);
  });

  test.each<[string, string, string]>([
    [
      'an unknown field',
      'petId,quantity,colour\n',
      '1 colour: is not a field of an order; the fields are id, petId, quantity, ',
    ],
    ['a field in the wrong case', 'petid,petId,quantity\n', '1 petid: is not a field of an order'],
    ['a field twice', 'petId,quantity,petId\n', '1 petId: occurs twice in the header'],
    ['an empty field', 'petId,quantity,\n', '1 a column without a name: is not a field'],
    ['no petId in the header', 'quantity\n1\n', '1 petId: is missing from the header'],
    ['semicolons', 'id;petId;quantity\n1;7,1\n', '1: must separate the columns with commas, not with semicolons'],
    ['tabs', 'petId\tquantity\n7\t1\n', '1: must separate the columns with commas, not with tabs'],
    [
      'a cancelled order that is complete',
      'petId,quantity,complete,status\n7,1,true,cancelled\n',
      '2 complete: must be false unless the status is shipped (got true)',
    ],
    ['a missing value', 'id,petId,quantity\n1,2\n', '2: must have 3 values, like the header (got 2)'],
    ['an extra value', 'petId,quantity\n1,2,3\n', '2: must have 2 values, like the header (got 3)'],
    ['a quote that is not closed', 'petId,quantity\n7,1\n7,"1\n7,1\n7,1', `3: ${INVALID}(Quote Not Closed`],
    ['a quote that is closed by the next one', 'petId,quantity\r7,"1\r7,1\r7,"1"\r', `2: ${INVALID}(Invalid Closing`],
    ['an overlong quoted value', `petId,quantity\n7,"${'1'.repeat(200_000)}`, `2: ${INVALID}(Max Record Size`],
    ['JSON', '{"petId":7,"quantity":1}\n', `1: ${INVALID}(Invalid Opening Quote`],
  ])('a file with %s', async (_what, text, expected) => {
    const errors = await errorsOf(text, { chunkBytes: 4_096 });
    expect(errors).toEqual([expect.stringContaining(expected)]);
  });

  it('an error after line breaks in quotes, by the line of the file', async () => {
    const errors = await errorsOf('petId,quantity\n"\n\n7",1\n7,x\n');
    expect(errors.map((error) => error.split(':')[0])).toEqual(['2 petId', '5 quantity']);
  });

  it('an id that occurs twice, with both lines', async () => {
    const text = ['id,petId,quantity', '9,7,1', '-1,7,1', '', '9,7,1', '8,7,1', '9,7,1', ''].join('\n');
    expect(await errorsOf(text)).toEqual([
      '5 id: must be unique in the file (got 9, as in line 2)',
      '7 id: must be unique in the file (got 9, as in line 2)',
    ]);
  });

  it('a missing id when the next one is in use near the end of the sequence', async () => {
    await database.db.query("SELECT setval('orders_id_seq', 4611686018427387903)");
    await insertOrder(database.db, { id: '4611686018427387904' });
    const importing = importText('petId,quantity\n7,1\n');
    await expect(importing).rejects.toThrow(
      /the next id for an order without one, is already in use .* give every order an id/,
    );
    expect(await storedOrders()).toHaveLength(1);
  });

  it('all errors of one row and of several rows, in the order of the lines', async () => {
    const text = [FIELDS, VALID.replace('1,7,1', 'x,7,0'), VALID, '1,2', VALID.replace('1', '0.5'), ''].join('\n');
    expect((await errorsOf(text)).map((error) => error.split(':')[0])).toEqual(['2 id', '2 quantity', '4', '5 id']);
  });

  it('the first 20 errors, without reading the rest of the file', async () => {
    let read = 0;
    async function* endless(): AsyncGenerator<Buffer> {
      yield await Promise.resolve(Buffer.from('petId,quantity\n'));
      for (; read < 100_000; read++) {
        yield await Promise.resolve(Buffer.from('1,0\n'.repeat(5)));
      }
    }
    const problems = await problemsOf(importOrders(client, endless()));
    expect(problems.pop()).toBe('The rest of the file was not checked.');
    expect(problems.map((line) => Number(/line (\d+)/.exec(line)?.[1]))).toEqual(
      Array.from({ length: 20 }, (_, index) => index + 2),
    );
    // What the buffers of streams hold.
    expect(read).toBeLessThan(10_000);
  });

  const LONG = `"\u001b[2J\nFAKE${'x'.repeat(9_999)}"`;

  it.each<[string, string, RegExp]>([
    ['value', `petId,quantity,status\n7,1,${LONG}\n`, /^ {2}- line 2, status must be pending/],
    ['column', `petId,quantity,${LONG}\n`, /^ {2}- line 1, {2}\[2J FAKEx+… is not a f/],
  ])('a long %s with control characters, which the message omits', async (_what, text, expected) => {
    const [problem, ...more] = await problemsOf(importText(text));
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
  const source = broken(`petId,quantity\n${'7,1\n'.repeat(10_000)}`);
  await expect(importOrders(client, source)).rejects.toThrow('disk');
  expect(await storedOrders()).toEqual(NOTHING);
});
