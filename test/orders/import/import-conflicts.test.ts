import { Readable } from 'node:stream';
import pg from 'pg';
import { LOCK_NOT_AVAILABLE } from '../../../src/database/postgres-errors.js';
import { importOrders } from '../../../src/orders/import/import-orders.js';
import { useTestDatabase } from '../../helpers/test-database.js';

const database = useTestDatabase();
let importer: pg.Client;
let other: pg.Client;
beforeEach(async () => {
  await database.db.query('TRUNCATE orders RESTART IDENTITY');
  // A default that the import must not rely on.
  importer = await connect({ lock_timeout: 300, options: '-c default_transaction_isolation=serializable' });
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

const HEADER = 'id,petId,quantity\n';
const row = (id: number): string => `${id},7,1\n`;

function importIds(ids: readonly number[]): Promise<number> {
  return importOrders(importer, Readable.from([Buffer.from(HEADER + ids.map(row).join(''))]));
}

const TAKEN = 'is already in use (duplicate key value violates unique constraint "orders_pkey" Key (id)=(2) already';
const LOCKED = { code: LOCK_NOT_AVAILABLE };

/** Runs something before or after the importer's statement that begins like this. */
function aroundStatement(
  start: string,
  steps: { before?: () => Promise<unknown>; after?: () => Promise<unknown> },
): void {
  const query = importer.query.bind(importer) as (...args: unknown[]) => unknown;
  jest.spyOn(importer, 'query').mockImplementation((...args: unknown[]) => {
    if (typeof args[0] !== 'string' || !args[0].trim().startsWith(start)) {
      return query(...args);
    }
    return (async () => {
      await steps.before?.();
      const result = await query(...args);
      await steps.after?.();
      return result;
    })();
  });
}

const insertNext = (): Promise<pg.QueryResult<{ id: string }>> =>
  other.query<{ id: string }>('INSERT INTO orders (pet_id, quantity) VALUES (8, 1) RETURNING id');

async function orderIds(): Promise<number[]> {
  const { rows } = await database.db.query<{ id: string }>('SELECT id FROM orders ORDER BY id');
  return rows.map(({ id }) => Number(id));
}

describe('importOrders and an insert by another connection', () => {
  it('gives an order inserted during the import an id above the imported ones, without a wait', async () => {
    aroundStatement('INSERT INTO orders (id', { after: insertNext });
    expect(await importIds([1, 2, 3])).toBe(3);
    expect(await orderIds()).toEqual([1, 2, 3, 4]);
  });

  it('does not move the sequence back when orders take ids while it is raised', async () => {
    aroundStatement('SELECT CASE', {
      before: async () => [await insertNext(), await insertNext(), await insertNext()],
    });
    await expect(importIds([2])).rejects.toThrow(TAKEN);
    expect((await insertNext()).rows).toEqual([{ id: '4' }]);
  });

  it('does not move a sequence back that was restarted above the ids of the file', async () => {
    await other.query('ALTER SEQUENCE orders_id_seq RESTART WITH 1000000');
    expect(await importIds([200_000])).toBe(1);
    expect((await insertNext()).rows).toEqual([{ id: '1000000' }]);
  });

  it('rejects the file, and names the line when it is imported again, when an order takes an id of the file after the check', async () => {
    aroundStatement('INSERT INTO orders (id', {
      before: () => other.query('INSERT INTO orders (id, pet_id, quantity) VALUES (2, 8, 1)'),
    });
    await expect(importIds([1, 2])).rejects.toThrow(TAKEN);
    await expect(importIds([1, 2])).rejects.toThrow('line 3, id must not be the id of an existing order (got 2)');
    expect(await orderIds()).toEqual([2]);
  });

  it('fails within the lock timeout when an uncommitted order has an id of the file', async () => {
    await other.query('BEGIN');
    await other.query('INSERT INTO orders (id, pet_id, quantity) VALUES (2, 8, 1)');
    await expect(importIds([1, 2])).rejects.toMatchObject(LOCKED);
    await other.query('COMMIT');
    expect(await orderIds()).toEqual([2]);
  });
});

describe('importOrders and the locks of others', () => {
  it('imports while another transaction holds the lock of VACUUM, ANALYZE and CREATE INDEX CONCURRENTLY', async () => {
    await other.query('BEGIN; LOCK TABLE orders IN SHARE UPDATE EXCLUSIVE MODE');
    expect(await importIds([1])).toBe(1);
    expect(await orderIds()).toEqual([1]);
    await other.query('ROLLBACK');
  });

  it('fails within the lock timeout when another transaction locks the table', async () => {
    await other.query('BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE');
    await expect(importIds([1])).rejects.toMatchObject(LOCKED);
    await other.query('ROLLBACK');
    expect(await importIds([1])).toBe(1);
  });

  it('fails within the lock timeout, before it reads the file, when another import is running', async () => {
    let finish = (): void => undefined;
    const finished = new Promise<void>((resolve) => (finish = resolve));
    let started = (): void => undefined;
    const isReading = new Promise<void>((resolve) => (started = resolve));
    async function* slowFile(): AsyncGenerator<Buffer> {
      started();
      await finished;
      yield Buffer.from(HEADER + row(1));
    }
    const first = importOrders(other, slowFile());
    await isReading;
    const unread = jest.fn(() => Buffer.from(HEADER + row(2)));
    const file = Readable.from([0]).map(unread);
    await expect(importOrders(importer, file)).rejects.toMatchObject(LOCKED);
    expect(unread).not.toHaveBeenCalled();
    finish();
    expect(await first).toBe(1);
    expect(await importIds([2])).toBe(1);
  });
});

it('importOrders reports a failure when COMMIT is rejected', async () => {
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
