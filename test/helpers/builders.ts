import type pg from 'pg';
import { generateKey } from '../../src/api-keys/api-keys.admin.js';
import { hashKey } from '../../src/api-keys/key.js';
import type { Plan } from '../../src/plans/plans.js';

export interface OrderRow {
  id: string;
  pet_id: string;
  quantity: number;
  ship_date: string | null;
  complete: boolean;
  status: 'pending' | 'shipped' | 'cancelled';
  created_at: string;
  cancelled_at: string | null;
}

let nextOrderId = 1_000n;

/** Builds a valid pending order. Ids are decimal text, because int64 does not fit into a JavaScript number. */
export function buildOrder(overrides: Partial<OrderRow> = {}): OrderRow {
  return {
    id: String(nextOrderId++),
    pet_id: '42',
    quantity: 1,
    ship_date: '2026-12-01T10:00:00.000Z',
    complete: false,
    status: 'pending',
    created_at: '2026-11-01T00:00:00.000Z',
    cancelled_at: overrides.status === 'cancelled' ? '2026-11-02T00:00:00.000Z' : null,
    ...overrides,
  };
}

/** @returns the id as decimal text */
export async function insertOrder(db: pg.Pool, overrides: Partial<OrderRow> = {}): Promise<string> {
  const order = buildOrder(overrides);
  await db.query('INSERT INTO orders SELECT * FROM json_populate_record(NULL::orders, $1)', [order]);
  return order.id;
}

/** Inserts pending orders. @returns their ids */
export function insertOrders(db: pg.Pool, count: number): Promise<string[]> {
  return Promise.all(Array.from({ length: count }, () => insertOrder(db)));
}

/** Inserts pending orders with the ids 1,000,001 and above, in one statement. */
export async function insertMany(db: pg.Pool, count: number): Promise<void> {
  await db.query(
    `INSERT INTO orders (id, pet_id, quantity) SELECT 1000000 + n, n, 1 FROM generate_series(1, ${count}) AS n`,
  );
}

export async function statusOf(db: pg.Pool, id: string): Promise<string | undefined> {
  const { rows } = await db.query<{ status: string }>('SELECT status::text FROM orders WHERE id = $1', [id]);
  return rows[0]?.status;
}

export interface KeyRow {
  plan: Plan;
  name: string;
  requests_per_minute: number | null;
  requests_per_day: number | null;
  expires_at: Date | null;
  revoked_at: Date | null;
}

/** Inserts an Enterprise key whose limits no test reaches by accident, unless overridden. */
export async function insertKey(db: pg.Pool, overrides: Partial<KeyRow> = {}): Promise<{ id: string; key: string }> {
  const { plan = 'enterprise' } = overrides;
  const quota = plan === 'enterprise' ? 1_000_000 : null;
  const key = generateKey();
  const row = {
    name: 'test',
    plan,
    requests_per_minute: quota,
    requests_per_day: quota,
    key_prefix: key.slice(0, 10),
    key_hash: `\\x${hashKey(key)}`,
    ...overrides,
  };
  const columns = Object.keys(row).join();
  const { rows } = await db.query<{ id: string }>(
    `INSERT INTO api_keys (${columns}) SELECT ${columns} FROM json_populate_record(NULL::api_keys, $1) RETURNING id`,
    [row],
  );
  return { id: rows[0]?.id ?? '', key };
}
