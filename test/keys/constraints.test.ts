import { randomBytes } from 'node:crypto';
import { buildOrder, type OrderRow } from '../helpers/builders.js';
import { useTestDatabase } from '../helpers/test-database.js';

const INT_MAX = 2_147_483_647;

// Types, defaults, unique values and what may be null are compared with schema.prisma.
const database = useTestDatabase();

type Row = Readonly<Record<string, unknown>>;

/** Inserts a row. @returns the constraint that it violates, or undefined */
async function insert(table: string, row: Row): Promise<unknown> {
  const names = Object.keys(row);
  const values = names.map((_name, index) => `$${index + 1}`);
  const statement = `INSERT INTO ${table} (${names.join(', ')}) VALUES (${values.join(', ')})`;
  return database.db.query(statement, Object.values(row)).then(
    () => undefined,
    (error: unknown) => (error as { constraint?: string }).constraint ?? error,
  );
}

describe('table api_keys', () => {
  const key = (overrides: Row = {}): Row => ({
    name: 'test',
    key_prefix: 'pst_012345',
    key_hash: randomBytes(32),
    plan: 'free',
    ...overrides,
  });

  it.each<[string, Row]>([
    ['another published plan without quotas', { plan: 'business' }],
    ['the smallest quotas', { plan: 'enterprise', requests_per_minute: 1, requests_per_day: 1 }],
    ['the largest quotas', { plan: 'enterprise', requests_per_minute: INT_MAX, requests_per_day: INT_MAX }],
    ['a name in any script', { name: 'Müller & Söhne, 株式会社ペット, 👩‍🚀' }],
  ])('accepts a row with %s', async (_what, overrides) => {
    expect(await insert('api_keys', key(overrides))).toBeUndefined();
  });

  const QUOTAS_IFF_ENTERPRISE = 'api_keys_quotas_iff_enterprise';
  const QUOTAS_POSITIVE = 'api_keys_quotas_positive';
  it.each<[string, Row, string]>([
    ['a digest of another length', { key_hash: randomBytes(31) }, 'api_keys_key_hash_sha256'],
    ['a blank name', { name: '   ' }, 'api_keys_name_not_blank'],
    ['an escape sequence in its name', { name: 'evil\u001b[2J' }, 'api_keys_name_printable'],
    ['a change of direction in its name', { name: 'evil\u202e' }, 'api_keys_name_printable'],
    ['a key in its name', { name: `Key pst_${'a'.repeat(43)}` }, 'api_keys_name_without_key'],
    ['an infinite expiry', { expires_at: 'infinity' }, 'api_keys_expires_at_finite'],
    ['enterprise without quotas', { plan: 'enterprise' }, QUOTAS_IFF_ENTERPRISE],
    ['enterprise without a daily quota', { plan: 'enterprise', requests_per_minute: 5 }, QUOTAS_IFF_ENTERPRISE],
    ['enterprise without a quota per minute', { plan: 'enterprise', requests_per_day: 5 }, QUOTAS_IFF_ENTERPRISE],
    ['free with quotas', { requests_per_minute: 5, requests_per_day: 5 }, QUOTAS_IFF_ENTERPRISE],
    ['business with a daily quota', { plan: 'business', requests_per_day: 5 }, QUOTAS_IFF_ENTERPRISE],
    ['a quota of 0 per minute', { plan: 'enterprise', requests_per_minute: 0, requests_per_day: 5 }, QUOTAS_POSITIVE],
    ['a quota of 0 per day', { plan: 'enterprise', requests_per_minute: 5, requests_per_day: 0 }, QUOTAS_POSITIVE],
  ])('rejects a row with %s', async (_what, overrides, constraint) => {
    expect(await insert('api_keys', key(overrides))).toBe(constraint);
  });
});

describe('table orders', () => {
  it.each<[string, Partial<OrderRow>]>([
    ['the largest values', { id: '9223372036854775807', pet_id: '9223372036854775807', quantity: INT_MAX }],
    ['the smallest ids', { id: '-9223372036854775808', pet_id: '-9223372036854775808' }],
    ['the earliest ship date of RFC 3339', { ship_date: '0001-01-01T00:00:00.000Z' }],
    ['the latest ship date of RFC 3339', { ship_date: '9999-12-31T23:59:59.999Z' }],
    ['status shipped and complete', { status: 'shipped', complete: true }],
  ])('accepts a row with %s', async (_what, overrides) => {
    expect(await insert('orders', { ...buildOrder(overrides) })).toBeUndefined();
  });

  const SHIP_DATE = 'orders_ship_date_rfc3339';
  const CANCELLED_AT = 'orders_cancelled_at_iff_cancelled';
  it.each<[string, Partial<OrderRow>, string]>([
    ['quantity 0', { quantity: 0 }, 'orders_quantity_positive'],
    ['an infinite ship date', { ship_date: 'infinity' }, SHIP_DATE],
    ['a ship date before the year 1', { ship_date: '0001-12-31 23:59:59.999+00 BC' }, SHIP_DATE],
    ['a ship date that is after the year 9999 in UTC', { ship_date: '9999-12-31T23:30:00-01:00' }, SHIP_DATE],
    ['a ship date that is after it when rounded', { ship_date: '9999-12-31T23:59:59.9999Z' }, SHIP_DATE],
    ['complete while cancelled', { status: 'cancelled', complete: true }, 'orders_complete_implies_shipped'],
    ['status cancelled without cancelled_at', { status: 'cancelled', cancelled_at: null }, CANCELLED_AT],
    ['cancelled_at though it has shipped', { status: 'shipped', cancelled_at: '2026-11-21T00:00:00Z' }, CANCELLED_AT],
  ])('rejects a row with %s', async (_what, overrides, constraint) => {
    expect(await insert('orders', { ...buildOrder(overrides) })).toBe(constraint);
  });
});
