import { Readable } from 'node:stream';
import pg from 'pg';
import { LOCK_NOT_AVAILABLE } from '../../src/database/postgres-errors.js';
import { importOrders } from '../../src/orders/import/import-orders.js';
import { useTestDatabase } from '../helpers/test-database.js';

const database = useTestDatabase();
let importer: pg.Client;
let other: pg.Client;
beforeEach(async () => {
  await database.db.query('TRUNCATE orders RESTART IDENTITY');
  importer = await connect({ lock_timeout: 300 });
  other = await connect({ lock_timeout: 5_000 });
});
afterEach(async () => {
  await Promise.all([importer.end(), other.end()]);
});

async function connect(options: pg.ClientConfig): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url, ...options });
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

function importIds(ids: readonly number[]): Promise<number> {
  return importOrders(
    importer,
    Readable.from([Buffer.from(`id,petId,quantity\n${ids.map((id) => `${id},7,1\n`).join('')}`)]),
  );
}

/** Runs something before the importer's statement that begins like this. */
function beforeStatement(start: string, work: () => Promise<unknown>): void {
  const query = importer.query.bind(importer) as (...args: unknown[]) => unknown;
  jest
    .spyOn(importer, 'query')
    .mockImplementation((...args: unknown[]) =>
      typeof args[0] === 'string' && args[0].trim().startsWith(start)
        ? work().then(() => query(...args))
        : query(...args),
    );
}

async function insertNext(): Promise<number> {
  const { rows } = await other.query<{ id: string }>(
    'INSERT INTO orders (pet_id, quantity) VALUES (8, 1) RETURNING id',
  );
  return Number(rows[0]?.id);
}

async function orderIds(): Promise<number[]> {
  const { rows } = await database.db.query<{ id: string }>('SELECT id FROM orders ORDER BY id');
  return rows.map(({ id }) => Number(id));
}

const INSERT = 'INSERT INTO orders (id';
const LOCKED = { code: LOCK_NOT_AVAILABLE };

describe('an import beside inserts', () => {
  it('gives an order that is inserted meanwhile an id above the imported ones, without a wait', async () => {
    beforeStatement(INSERT, insertNext);
    expect(await importIds([1, 2, 3])).toBe(3);
    expect(await orderIds()).toEqual([1, 2, 3, 4]);
  });

  it('leaves the sequence in front of orders that take ids while it is raised', async () => {
    beforeStatement('SELECT CASE', async () => [await insertNext(), await insertNext(), await insertNext()]);
    await expect(importIds([2])).rejects.toMatchObject({ code: '23505' });
    expect(await insertNext()).toBe(4);
  });

  it('leaves a sequence that was restarted above the ids of the file', async () => {
    await other.query('ALTER SEQUENCE orders_id_seq RESTART WITH 1000000');
    expect(await importIds([200_000])).toBe(1);
    expect(await insertNext()).toBe(1_000_000);
  });

  it('imports nothing when an order takes an id of the file after the check, and then names the line', async () => {
    beforeStatement(INSERT, () => other.query('INSERT INTO orders (id, pet_id, quantity) VALUES (2, 8, 1)'));
    await expect(importIds([1, 2])).rejects.toThrow('duplicate key');
    await expect(importIds([1, 2])).rejects.toThrow('line 3, id must not be the id of an existing order (got 2)');
    expect(await orderIds()).toEqual([2]);
  });
});

describe('an import fails within the lock timeout', () => {
  it.each([
    ['an uncommitted order has an id of the file', 'INSERT INTO orders (id, pet_id, quantity) VALUES (2, 8, 1)'],
    ['the table is locked', 'LOCK TABLE orders IN ACCESS EXCLUSIVE MODE'],
  ])('when %s', async (_what, lock) => {
    await other.query(`BEGIN; ${lock}`);
    await expect(importIds([1, 2])).rejects.toMatchObject(LOCKED);
    await other.query('ROLLBACK');
    expect(await orderIds()).toEqual([]);
  });

  it('when another import runs', async () => {
    let first: Promise<number> | undefined;
    const file = await new Promise<Readable>((isReading) => {
      const source = new Readable({ read: () => isReading(source) });
      first = importOrders(other, source);
    });
    await expect(importIds([2])).rejects.toMatchObject(LOCKED);
    file.push('id,petId,quantity\n1,7,1\n');
    file.push(null);
    expect(await first).toBe(1);
    expect(await orderIds()).toEqual([1]);
  });
});

it('an import fails when its COMMIT is rejected', async () => {
  await database.db.query(
    'ALTER TABLE orders ADD CONSTRAINT one_per_pet UNIQUE (pet_id) DEFERRABLE INITIALLY DEFERRED',
  );
  try {
    await expect(importIds([1, 2])).rejects.toThrow('one_per_pet');
    expect(await orderIds()).toEqual([]);
  } finally {
    await database.db.query('ALTER TABLE orders DROP CONSTRAINT one_per_pet');
  }
});
