import { parse } from 'lossless-json';
import { insertOrder } from '../helpers/builders.js';
import { type CommandResult, failure, petstore } from '../helpers/petstore.js';
import { createTestDatabase, useTestDatabase } from '../helpers/test-database.js';

const database = useTestDatabase();
const ID = '9223372036854775807';

beforeAll(async () => {
  await insertOrder(database.db, { id: ID, pet_id: '-9007199254740993', ship_date: '2026-12-01T10:00:00Z' });
  await insertOrder(database.db, { id: '-5', status: 'cancelled' });
});

function show(...args: string[]): Promise<CommandResult> {
  return petstore(['orders', 'show', ...args], { DATABASE_URL: database.url });
}

describe('petstore orders show', () => {
  it('prints one order with its status, and exact ids as JSON', async () => {
    const text = await show(ID);
    expect(text).toMatchObject({ exitCode: 0, stderr: '' });
    expect(text.stdout).toMatch(/^id +9223372036854775807\npetId +-9007199254740993\n/);
    expect(text.stdout).toMatch(/^shipDate +2026-12-01T10:00:00\.000Z\n/m);
    expect(text.stdout).toMatch(/^status +pending\n/m);
    expect(text.stdout).not.toContain('cancelledAt');
    const { stdout } = await show(ID, '--json');
    const order = Object.entries(parse(stdout) as Record<string, unknown>);
    expect(Object.fromEntries(order.map(([field, value]) => [field, String(value)]))).toMatchObject({
      id: ID,
      petId: '-9007199254740993',
      quantity: expect.any(String) as string,
      shipDate: '2026-12-01T10:00:00.000Z',
      complete: 'false',
      status: 'pending',
      createdAt: expect.stringMatching(/Z$/) as string,
      cancelledAt: 'null',
    });
  });

  it('shows a negative id after --, and the time of a cancel', async () => {
    expect((await show('--', '-5')).stdout).toMatch(/^status +cancelled\ncreatedAt .*\ncancelledAt +20.*Z$/m);
  });

  it('exits with 1 for an order that does not exist, and with 2 for what is no id', async () => {
    expect(await show('4')).toEqual(failure('There is no order with the id 4.'));
    const { exitCode, stderr } = await show('9223372036854775808');
    expect(exitCode).toBe(2);
    expect(stderr).toContain('It must be an integer from -9223372036854775808 to 9223372036854775807.');
  });
});

describe('petstore seed', () => {
  it('inserts the same orders every time, changes no existing one, and leaves the next id above all of them', async () => {
    const own = await createTestDatabase();
    const seed = (orders: string): Promise<CommandResult> =>
      petstore(['seed', '--orders', orders, '--json'], { DATABASE_URL: own.url });
    const orders = async (): Promise<unknown[]> =>
      (await own.db.query<{ id: string }>('SELECT * FROM orders ORDER BY id')).rows;
    expect(JSON.parse((await seed('2')).stdout)).toEqual({ inserted: 2, existing: 0 });
    await own.db.query('UPDATE orders SET quantity = 99 WHERE id = 2');
    const before = await orders();
    expect(JSON.parse((await seed('3')).stdout)).toEqual({ inserted: 1, existing: 2 });
    expect((await orders()).slice(0, 2)).toEqual(before);
    const next = await own.db.query<{ id: string }>('INSERT INTO orders (pet_id, quantity) VALUES (7, 1) RETURNING id');
    expect(next.rows).toEqual([{ id: '4' }]);
    await own.drop();
  });
});
