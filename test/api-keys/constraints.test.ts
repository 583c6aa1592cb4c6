import { randomBytes } from 'node:crypto';
import { buildOrder, type OrderRow } from '../helpers/builders.js';
import { useTestDatabase } from '../helpers/test-database.js';

const CHECK_VIOLATION = '23514';
const NOT_NULL_VIOLATION = '23502';
const UNIQUE_VIOLATION = '23505';
const INVALID_TEXT = '22P02';
const INT_MAX = 2_147_483_647;

const database = useTestDatabase();

type Row = Readonly<Record<string, unknown>>;

/** Inserts a row and returns the database's error, or undefined. */
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

describe('table api_keys', () => {
  const key = (overrides: Row = {}): Row => ({
    name: 'test',
    key_prefix: 'pst_012345',
    key_hash: randomBytes(32),
    plan: 'free',
    ...overrides,
  });

  test.each<[string, Row]>([
    ['the Free plan without quotas', {}],
    ['another published plan without quotas', { plan: 'business' }],
    ['the smallest quotas', { plan: 'enterprise', requests_per_minute: 1, requests_per_day: 1 }],
    ['the largest quotas', { plan: 'enterprise', requests_per_minute: INT_MAX, requests_per_day: INT_MAX }],
    ['a name in any script', { name: 'Müller & Söhne, 株式会社ペット, 👩‍🚀' }],
    ['an expiry in the past', { expires_at: '2020-01-01T00:00:00Z' }],
  ])('accepts a row with %s', async (_what, overrides) => {
    expect(await insert('api_keys', key(overrides))).toBeUndefined();
  });

  const QUOTAS_IFF_ENTERPRISE = { code: CHECK_VIOLATION, constraint: 'api_keys_quotas_iff_enterprise' };
  const QUOTAS_POSITIVE = { code: CHECK_VIOLATION, constraint: 'api_keys_quotas_positive' };
  const HASH = { code: CHECK_VIOLATION, constraint: 'api_keys_key_hash_sha256' };
  test.each<[string, Row, object]>([
    ['a digest that is too short', { key_hash: randomBytes(31) }, HASH],
    ['a digest that is too long', { key_hash: randomBytes(33) }, HASH],
    ['an empty name', { name: '' }, { code: CHECK_VIOLATION, constraint: 'api_keys_name_not_blank' }],
    ['a blank name', { name: '   ' }, { code: CHECK_VIOLATION, constraint: 'api_keys_name_not_blank' }],
    ...['\n', '\u001b[2J', '\u007f', '\u009b2J', '\u061c', '\u200f', '\u2028', '\u202e', '\u2069'].map(
      (character): [string, Row, object] => [
        `the character ${JSON.stringify(character)} in its name`,
        { name: `evil${character}` },
        { code: CHECK_VIOLATION, constraint: 'api_keys_name_printable' },
      ],
    ),
    ['enterprise without quotas', { plan: 'enterprise' }, QUOTAS_IFF_ENTERPRISE],
    ['enterprise without a daily quota', { plan: 'enterprise', requests_per_minute: 5 }, QUOTAS_IFF_ENTERPRISE],
    ['enterprise without a quota per minute', { plan: 'enterprise', requests_per_day: 5 }, QUOTAS_IFF_ENTERPRISE],
    ['free with quotas', { requests_per_minute: 5, requests_per_day: 5 }, QUOTAS_IFF_ENTERPRISE],
    ['pro with a quota per minute', { plan: 'pro', requests_per_minute: 5 }, QUOTAS_IFF_ENTERPRISE],
    ['business with a daily quota', { plan: 'business', requests_per_day: 5 }, QUOTAS_IFF_ENTERPRISE],
    ['a quota of 0 per minute', { plan: 'enterprise', requests_per_minute: 0, requests_per_day: 5 }, QUOTAS_POSITIVE],
    ['a quota of 0 per day', { plan: 'enterprise', requests_per_minute: 5, requests_per_day: 0 }, QUOTAS_POSITIVE],
    ['an unknown plan', { plan: 'platinum' }, { code: INVALID_TEXT }],
    ['no plan', { plan: null }, { code: NOT_NULL_VIOLATION }],
    ['no name', { name: null }, { code: NOT_NULL_VIOLATION }],
    ['no digest', { key_hash: null }, { code: NOT_NULL_VIOLATION }],
    ['no prefix', { key_prefix: null }, { code: NOT_NULL_VIOLATION }],
  ])('rejects a row with %s', async (_what, overrides, expected) => {
    const before = await countOf('api_keys');
    expect(await insert('api_keys', key(overrides))).toMatchObject(expected);
    expect(await countOf('api_keys')).toBe(before);
  });

  it('rejects a second key with the same digest', async () => {
    const key_hash = randomBytes(32);
    expect(await insert('api_keys', key({ key_hash }))).toBeUndefined();
    expect(await insert('api_keys', key({ key_hash, name: 'another' }))).toEqual({
      code: UNIQUE_VIOLATION,
      constraint: 'api_keys_key_hash_key',
    });
  });

  it('rejects an update that violates a constraint', async () => {
    const key_hash = randomBytes(32);
    await insert('api_keys', key({ key_hash, plan: 'enterprise', requests_per_minute: 5, requests_per_day: 5 }));
    const update = database.db.query("UPDATE api_keys SET plan = 'pro' WHERE key_hash = $1", [key_hash]);
    await expect(update).rejects.toMatchObject(QUOTAS_IFF_ENTERPRISE);
  });
});

describe('table orders', () => {
  const order = (overrides: Partial<OrderRow> = {}): Row => ({ ...buildOrder(overrides) });

  test.each<[string, Partial<OrderRow>]>([
    ['status pending', {}],
    ['no ship date', { ship_date: null }],
    ['the largest quantity', { quantity: INT_MAX }],
    ['the largest ids', { id: '9223372036854775807', pet_id: '9223372036854775807' }],
    ['the smallest ids', { id: '-9223372036854775808', pet_id: '-9223372036854775808' }],
    ['the earliest ship date of RFC 3339', { ship_date: '0001-01-01T00:00:00.000Z' }],
    ['the latest ship date of RFC 3339', { ship_date: '9999-12-31T23:59:59.999Z' }],
    ['status shipped', { status: 'shipped' }],
    ['status shipped and complete', { status: 'shipped', complete: true }],
    ['status cancelled', { status: 'cancelled' }],
  ])('accepts a row with %s', async (_what, overrides) => {
    expect(await insert('orders', order(overrides))).toBeUndefined();
  });

  const SHIP_DATE = 'orders_ship_date_rfc3339';
  const COMPLETE = 'orders_complete_implies_shipped';
  const CANCELLED_AT = 'orders_cancelled_at_iff_cancelled';
  test.each<[string, Partial<OrderRow>, string]>([
    ['quantity 0', { quantity: 0 }, 'orders_quantity_positive'],
    ['a negative quantity', { quantity: -1 }, 'orders_quantity_positive'],
    ['an infinite ship date', { ship_date: 'infinity' }, SHIP_DATE],
    ['a ship date of -infinity', { ship_date: '-infinity' }, SHIP_DATE],
    ['a ship date before the year 1', { ship_date: '0001-12-31 23:59:59.999+00 BC' }, SHIP_DATE],
    ['a ship date after the year 9999', { ship_date: '10000-01-01T00:00:00Z' }, SHIP_DATE],
    // In UTC this is in the year 10000.
    ['a ship date after the year 9999 in UTC', { ship_date: '9999-12-31T23:30:00-01:00' }, SHIP_DATE],
    // Rounded to milliseconds, this is in the year 10000.
    ['a ship date that rounds to after the year 9999', { ship_date: '9999-12-31T23:59:59.9999Z' }, SHIP_DATE],
    ['complete while pending', { complete: true }, COMPLETE],
    ['complete while cancelled', { status: 'cancelled', complete: true }, COMPLETE],
    ['status cancelled without cancelled_at', { status: 'cancelled', cancelled_at: null }, CANCELLED_AT],
    ['cancelled_at while pending', { cancelled_at: '2026-11-21T00:00:00Z' }, CANCELLED_AT],
    ['cancelled_at though it has shipped', { status: 'shipped', cancelled_at: '2026-11-21T00:00:00Z' }, CANCELLED_AT],
  ])('rejects a row with %s', async (_what, overrides, constraint) => {
    const before = await countOf('orders');
    expect(await insert('orders', order(overrides))).toEqual({ code: CHECK_VIOLATION, constraint });
    expect(await countOf('orders')).toBe(before);
  });

  it('accepts only the statuses pending, shipped and cancelled', async () => {
    expect(await insert('orders', { ...order(), status: 'lost' })).toEqual({ code: INVALID_TEXT });
    expect(await insert('orders', { ...order(), status: null })).toMatchObject({ code: NOT_NULL_VIOLATION });
  });

  it('defaults to the next id, pending, not complete and not cancelled', async () => {
    const { rows } = await database.db.query<Row>(
      `INSERT INTO orders (pet_id, quantity) VALUES (1, 1)
       RETURNING id IS NOT NULL AS has_id, status::text, complete, cancelled_at, ship_date`,
    );
    expect(rows).toEqual([{ has_id: true, status: 'pending', complete: false, cancelled_at: null, ship_date: null }]);
  });
});
