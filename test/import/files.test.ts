import { Readable } from 'node:stream';
import pg from 'pg';
import { LoadProgress } from '../../src/orders/bulk-load.js';
import { importOrders, type ImportOptions } from '../../src/orders/import/import-orders.js';
import { insertOrder } from '../helpers/builders.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';

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

/** Imports a text as the content of a file that arrives in small chunks. */
function importText(text: string, options: ImportOptions = {}): Promise<number> {
  const bytes = Buffer.from(text);
  const chunks = Array.from({ length: Math.ceil(bytes.length / 7) }, (_, index) =>
    bytes.subarray(index * 7, (index + 1) * 7),
  );
  return importOrders(client, Readable.from(chunks), options);
}

/** The errors of a rejected import. Fails when an order was changed. */
async function errorsOf(file: string | AsyncIterable<Buffer>, options: ImportOptions = {}): Promise<string[]> {
  const before = await storedOrders();
  const importing = typeof file === 'string' ? importText(file, options) : importOrders(client, file, options);
  const { message } = (await importing.catch((error: unknown) => error)) as Error;
  expect(await storedOrders()).toEqual(before);
  const [title, ...problems] = message.split('\n');
  expect(title).toBe('Errors in the file; nothing was imported:');
  return problems.map((problem) => problem.replace(/^ {2}- /, ''));
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
const COMPLETE = 'true or false, and true only when the status is shipped';
/** A row of valid values, one for each of the fields. */
const VALID = '1,7,1,none,false,pending';

describe('an import', () => {
  it('stores exact int64 values', async () => {
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

  it('reads quotes, CRLF, a byte order mark and blank lines', async () => {
    const text =
      '\uFEFF"petId",quantity,status,id\r\n7,1,shipped,1\r\n"7", "1" ,"pending",2\r\n\r\n7,1,cancelled,9007199254740993\r\n';
    expect(await importText(text)).toBe(3);
    expect(await storedOrders()).toEqual([
      stored({ id: '1', status: 'shipped' }),
      stored({ id: '2' }),
      stored({ id: '9007199254740993', status: 'cancelled', has_cancelled_at: true }),
    ]);
  });

  it('stores shipped when complete is true, and pending otherwise, without a column for the status', async () => {
    expect(await importText('petId,quantity,complete\n7,1,true\n7,1,false\n')).toBe(2);
    expect(await storedOrders()).toEqual([stored({ id: '1', status: 'shipped', complete: true }), stored({ id: '2' })]);
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

  it('counts the rows that it has read, for the line which the command writes every ten seconds', async () => {
    const progress = new LoadProgress();
    await importOrders(client, Readable.from([Buffer.from('petId,quantity\n7,1\n8,1\n')]), {}, progress);
    expect(progress.orders).toBe(2);
  });

  it('stores nothing when reading the file fails', async () => {
    async function* broken(text: string): AsyncGenerator<Buffer> {
      yield await Promise.resolve(Buffer.from(text));
      throw new Error('the disk is gone');
    }
    const source = broken(`petId,quantity\n${'7,1\n'.repeat(10_000)}`);
    await expect(importOrders(client, source)).rejects.toThrow('disk');
    expect(await storedOrders()).toEqual([]);
  });
});

it('a dry run reports an id that exists, as the import does', async () => {
  await insertOrder(database.db, { id: '5' });
  const text = 'id,petId,quantity\n5,7,1\n6,7,1\n';
  const error = 'line 2, id must not be the id of an existing order (got 5)';
  expect(await errorsOf(text, { dryRun: true })).toEqual([error]);
  expect(await errorsOf(text)).toEqual([error]);
});

describe('the end of a file', () => {
  const WHOLE = 'petId,quantity,status\n7,25,shipped\n8,25,shipped\n';
  const CUT_OFF = 'line 3 has no line end and may have been cut off; if the file is complete, pass --complete';

  it('rejects a file that is cut off in its last row, wherever', async () => {
    for (let length = WHOLE.lastIndexOf('8') + 1; length < WHOLE.length; length++) {
      expect(await errorsOf(WHOLE.slice(0, length))).toContain(CUT_OFF);
    }
  });

  it('rejects a last field that is empty, also with a line end', async () => {
    expect(await errorsOf(WHOLE.replace(/shipped\n$/, '\n'))).toEqual([`line 3, status must be ${STATUS} (got "")`]);
  });
});

describe('an import rejects the whole file and names the line and the field, for', () => {
  test.each<[field: string, value: string, mustBe: string]>([
    ['id', '9223372036854775808', INT64],
    ['petId', '007', INT64],
    ['quantity', '2147483648', QUANTITY],
    ['shipDate', 'infinity', TIME],
    ['complete', 'untrue', COMPLETE],
    ['complete', 'TRUE', COMPLETE],
    ['status', 'placed', STATUS],
  ])('%s %j', async (field, value, mustBe) => {
    const values = VALID.split(',').with(FIELDS.split(',').indexOf(field), value);
    const error = `line 2, ${field} must be ${mustBe} (got ${JSON.stringify(value)})`;
    expect(await errorsOf(`${FIELDS}\n${values.join()}\n`)).toEqual([error]);
  });

  const HEADER = 'the fields, separated by commas, are id, petId, quantity, shipDate, complete, status';
  const NOT_CSV = 'is not valid CSV; perhaps a quote is not closed';

  test.each<[string, string, string]>([
    ['an unknown field', 'petId,quantity,colour\n', `unknown in the header: "colour"; ${HEADER}`],
    ['a field twice', 'petId,quantity,petId\n', `repeated in the header: "petId"; ${HEADER}`],
    ['no petId in the header', 'quantity\n1\n', `missing in the header: "petId"; ${HEADER}`],
    ['a missing value', 'id,petId,quantity\n1,2\n', 'line 2, Invalid Record Length: columns length is 3, got 2'],
    ['a quote that is not closed', 'petId,quantity\n7,1\n7,"1\n7,1\n', `the row after line 2 ${NOT_CSV} (Quote Not`],
    [
      'an endless quote',
      `petId,quantity\n7,1\n7,"${'1'.repeat(200_000)}`,
      `the row after line 2 ${NOT_CSV} (Max Record`,
    ],
    [
      'control characters, which it escapes, in a long value',
      `petId,quantity,status\n7,1,"\u001b[2J\nFAKE${'x'.repeat(9_999)}"\n`,
      `line 3, status must be ${STATUS} (got "\\u001b[2J\\nFAKEx`,
    ],
  ])('%s', async (_what, text, expected) => {
    const [error, ...more] = await errorsOf(text);
    expect(error).toContain(expected);
    expect(error!.length).toBeLessThan(400);
    expect(more).toEqual([]);
  });

  it.each(['\n', '\r\n', '\r'])('all fields and rows, by the lines of a file with %j', async (end) => {
    const rows = [FIELDS, VALID.replace('1,7,1', 'x,7,0'), '', VALID, ',,', VALID.replace('1', '0.5'), ''];
    const lines = (await errorsOf(rows.join(end))).map((error) => error.split(' must')[0]);
    expect(lines).toEqual(['line 2, id', 'line 2, quantity', 'line 6, id']);
  });

  it('an id that occurs twice, with both lines', async () => {
    const text = ['id,petId,quantity', '9,7,1', '-1,7,1', '', '9,7,1', '8,7,1', '9,7,1', ''].join('\n');
    expect(await errorsOf(text)).toEqual([
      'line 5, id must be unique in the file (got 9, as in line 2)',
      'line 7, id must be unique in the file (got 9, as in line 2)',
    ]);
  });

  it('the first 20 errors, without reading the rest of the file', async () => {
    async function* long(): AsyncGenerator<Buffer> {
      yield await Promise.resolve(Buffer.from('petId,quantity\n'));
      for (let chunk = 0; chunk < 100_000; chunk++) {
        yield await Promise.resolve(Buffer.from('1,0\n'.repeat(5)));
      }
      throw new Error('The rest of the file was read.');
    }
    const problems = await errorsOf(long());
    expect(problems.pop()).toBe('The rest of the file was not checked.');
    const lines = problems.map((line) => Number(/line (\d+)/.exec(line)?.[1]));
    expect(lines).toEqual(Array.from({ length: 20 }, (_, index) => index + 2));
  });
});
