import { randomBytes } from 'node:crypto';
import { buildOrder, type OrderRow } from '../helpers/builders.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';

const CHECK_VIOLATION = '23514';
const NOT_NULL_VIOLATION = '23502';
const UNIQUE_VIOLATION = '23505';
const INVALID_TEXT = '22P02';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

type Row = Readonly<Record<string, unknown>>;

/** Inserts a row; what the database says against it, or undefined when it takes it. */
async function insert(table: string, row: Row): Promise<{ code: string; constraint?: string } | undefined> {
  const names = Object.keys(row);
  const values = names.map((_name, index) => `$${index + 1}`);
  try {
    await database.db.query(
      `INSERT INTO ${table} (${names.join(', ')}) VALUES (${values.join(', ')})`,
      Object.values(row),
    );
    return undefined;
  } catch (error) {
    const { code, constraint } = error as { code: string; constraint?: string };
    return constraint === undefined ? { code } : { code, constraint };
  }
}

async function countOf(table: string): Promise<number> {
  const { rows } = await database.db.query<{ count: number }>(`SELECT count(*)::integer AS count FROM ${table}`);
  return rows[0]?.count ?? -1;
}

describe('a key in the database', () => {
  const key = (overrides: Row = {}): Row => ({
    name: 'test',
    key_prefix: 'pst_012345',
    key_hash: randomBytes(32),
    plan: 'free',
    ...overrides,
  });

  test.each<[string, Row]>([
    ['of a published plan without quotas', {}],
    ['of every published plan', { plan: 'business' }],
    ['of enterprise with both quotas', { plan: 'enterprise', requests_per_minute: 1, requests_per_day: 1 }],
    [
      'of enterprise with the largest quotas',
      { plan: 'enterprise', requests_per_minute: 2_147_483_647, requests_per_day: 2_147_483_647 },
    ],
    ['that has expired', { expires_at: '2020-01-01T00:00:00Z' }],
  ])('may be one %s', async (_what, overrides) => {
    expect(await insert('api_keys', key(overrides))).toBeUndefined();
  });

  const QUOTAS_IFF_ENTERPRISE = { code: CHECK_VIOLATION, constraint: 'api_keys_quotas_iff_enterprise' };
  const QUOTAS_POSITIVE = { code: CHECK_VIOLATION, constraint: 'api_keys_quotas_positive' };
  const HASH = { code: CHECK_VIOLATION, constraint: 'api_keys_key_hash_sha256' };
  test.each<[string, Row, object]>([
    ['a digest that is too short', { key_hash: randomBytes(31) }, HASH],
    ['a digest that is too long', { key_hash: randomBytes(33) }, HASH],
    ['no bytes of digest', { key_hash: Buffer.alloc(0) }, HASH],
    ['the key itself for a digest', { key_hash: Buffer.from(`pst_${'0'.repeat(49)}`) }, HASH],
    ['an empty name', { name: '' }, { code: CHECK_VIOLATION, constraint: 'api_keys_name_not_blank' }],
    ['a blank name', { name: '   ' }, { code: CHECK_VIOLATION, constraint: 'api_keys_name_not_blank' }],
    ['enterprise without quotas', { plan: 'enterprise' }, QUOTAS_IFF_ENTERPRISE],
    ['enterprise without a day', { plan: 'enterprise', requests_per_minute: 5 }, QUOTAS_IFF_ENTERPRISE],
    ['enterprise without a minute', { plan: 'enterprise', requests_per_day: 5 }, QUOTAS_IFF_ENTERPRISE],
    ['free with quotas', { requests_per_minute: 5, requests_per_day: 5 }, QUOTAS_IFF_ENTERPRISE],
    ['pro with a minute', { plan: 'pro', requests_per_minute: 5 }, QUOTAS_IFF_ENTERPRISE],
    ['business with a day', { plan: 'business', requests_per_day: 5 }, QUOTAS_IFF_ENTERPRISE],
    ['a minute of 0', { plan: 'enterprise', requests_per_minute: 0, requests_per_day: 5 }, QUOTAS_POSITIVE],
    ['a day of 0', { plan: 'enterprise', requests_per_minute: 5, requests_per_day: 0 }, QUOTAS_POSITIVE],
    ['a negative minute', { plan: 'enterprise', requests_per_minute: -1, requests_per_day: 5 }, QUOTAS_POSITIVE],
    ['a plan that nobody knows', { plan: 'platinum' }, { code: INVALID_TEXT }],
    ['no plan', { plan: null }, { code: NOT_NULL_VIOLATION }],
    ['no name', { name: null }, { code: NOT_NULL_VIOLATION }],
    ['no digest', { key_hash: null }, { code: NOT_NULL_VIOLATION }],
    ['no prefix', { key_prefix: null }, { code: NOT_NULL_VIOLATION }],
  ])('may not have %s', async (_what, overrides, expected) => {
    const before = await countOf('api_keys');
    expect(await insert('api_keys', key(overrides))).toMatchObject(expected);
    expect(await countOf('api_keys')).toBe(before);
  });

  it('is the only one with its digest', async () => {
    const key_hash = randomBytes(32);
    expect(await insert('api_keys', key({ key_hash }))).toBeUndefined();
    expect(await insert('api_keys', key({ key_hash, name: 'another' }))).toEqual({
      code: UNIQUE_VIOLATION,
      constraint: 'api_keys_key_hash_key',
    });
  });

  it('cannot be changed into what it may not be', async () => {
    const key_hash = randomBytes(32);
    await insert('api_keys', key({ key_hash, plan: 'enterprise', requests_per_minute: 5, requests_per_day: 5 }));
    const update = database.db.query("UPDATE api_keys SET plan = 'pro' WHERE key_hash = $1", [key_hash]);
    await expect(update).rejects.toMatchObject(QUOTAS_IFF_ENTERPRISE);
  });
});

describe('an order in the database', () => {
  const order = (overrides: Partial<OrderRow> = {}): Row => ({ ...buildOrder(overrides) });

  test.each<[string, Partial<OrderRow>]>([
    ['that is pending', {}],
    ['without a ship date', { ship_date: null }],
    ['of the largest quantity', { quantity: 2_147_483_647 }],
    ['with the largest ids', { id: '9223372036854775807', pet_id: '9223372036854775807' }],
    ['with the smallest ids', { id: '-9223372036854775808', pet_id: '-9223372036854775808' }],
    ['of the first moment that RFC 3339 can write', { ship_date: '0001-01-01T00:00:00.000Z' }],
    ['of the last moment that RFC 3339 can write', { ship_date: '9999-12-31T23:59:59.999Z' }],
    ['that has shipped', { status: 'shipped' }],
    ['that has shipped and is complete', { status: 'shipped', complete: true }],
    ['that was cancelled', { status: 'cancelled' }],
  ])('may be one %s', async (_what, overrides) => {
    expect(await insert('orders', order(overrides))).toBeUndefined();
  });

  const SHIP_DATE = 'orders_ship_date_rfc3339';
  const COMPLETE = 'orders_complete_implies_shipped';
  const CANCELLED_AT = 'orders_cancelled_at_iff_cancelled';
  test.each<[string, Partial<OrderRow>, string]>([
    ['no units', { quantity: 0 }, 'orders_quantity_positive'],
    ['less than no units', { quantity: -1 }, 'orders_quantity_positive'],
    ['an infinite ship date', { ship_date: 'infinity' }, SHIP_DATE],
    ['a ship date before all time', { ship_date: '-infinity' }, SHIP_DATE],
    ['a ship date before the year 1', { ship_date: '0001-12-31 23:59:59.999+00 BC' }, SHIP_DATE],
    ['a ship date after the year 9999', { ship_date: '10000-01-01T00:00:00Z' }, SHIP_DATE],
    // In UTC it is the year 10000 already.
    ['a ship date after the year 9999 in UTC', { ship_date: '9999-12-31T23:30:00-01:00' }, SHIP_DATE],
    // Rounded to milliseconds it is.
    ['a ship date that rounds to after the year 9999', { ship_date: '9999-12-31T23:59:59.9999Z' }, SHIP_DATE],
    ['been fulfilled while it is pending', { complete: true }, COMPLETE],
    ['been fulfilled though it was cancelled', { status: 'cancelled', complete: true }, COMPLETE],
    ['no time of cancellation though it was cancelled', { status: 'cancelled', cancelled_at: null }, CANCELLED_AT],
    ['a time of cancellation while it is pending', { cancelled_at: '2026-11-21T00:00:00Z' }, CANCELLED_AT],
    [
      'a time of cancellation though it has shipped',
      { status: 'shipped', cancelled_at: '2026-11-21T00:00:00Z' },
      CANCELLED_AT,
    ],
  ])('may not have %s', async (_what, overrides, constraint) => {
    const before = await countOf('orders');
    expect(await insert('orders', order(overrides))).toEqual({ code: CHECK_VIOLATION, constraint });
    expect(await countOf('orders')).toBe(before);
  });

  it('is in one of the three states', async () => {
    expect(await insert('orders', { ...order(), status: 'lost' })).toEqual({ code: INVALID_TEXT });
    expect(await insert('orders', { ...order(), status: null })).toMatchObject({ code: NOT_NULL_VIOLATION });
  });

  it('is pending, not complete, not cancelled and has an id when nothing else is said', async () => {
    const { rows } = await database.db.query<Row>(
      `INSERT INTO orders (pet_id, quantity) VALUES (1, 1)
       RETURNING id IS NOT NULL AS has_id, status::text, complete, cancelled_at, ship_date`,
    );
    expect(rows).toEqual([{ has_id: true, status: 'pending', complete: false, cancelled_at: null, ship_date: null }]);
  });
});
