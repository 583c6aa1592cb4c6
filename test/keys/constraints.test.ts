import { randomBytes } from 'node:crypto';
import { buildOrder, type OrderRow } from '../helpers/builders.js';
import { useTestDatabase } from '../helpers/test-database.js';

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

  it('accepts a row with a name in any script', async () => {
    expect(await insert('api_keys', key({ name: 'Müller & Söhne, 株式会社ペット, 👩‍🚀' }))).toBeUndefined();
  });

  it.each<[string, Row, string]>([
    ['a digest of another length', { key_hash: randomBytes(31) }, 'api_keys_key_hash_sha256'],
    ['a blank name', { name: '   ' }, 'api_keys_name_not_blank'],
    ['an escape sequence in its name', { name: 'evil\u001b[2J' }, 'api_keys_name_printable'],
    ['a key in its name', { name: `Key pst_${'a'.repeat(43)}` }, 'api_keys_name_without_key'],
    ['an infinite expiry', { expires_at: 'infinity' }, 'api_keys_expires_at_finite'],
    ['enterprise without a quota', { plan: 'enterprise', requests_per_day: 5 }, 'api_keys_quotas_iff_enterprise'],
    ['free with quotas', { requests_per_minute: 5, requests_per_day: 5 }, 'api_keys_quotas_iff_enterprise'],
    ['a quota of 0', { plan: 'enterprise', requests_per_minute: 0, requests_per_day: 5 }, 'api_keys_quotas_positive'],
  ])('rejects a row with %s', async (_what, overrides, constraint) => {
    expect(await insert('api_keys', key(overrides))).toBe(constraint);
  });
});

// The tests of the list insert the largest and smallest values that are valid.
describe('table orders', () => {
  it.each<[string, Partial<OrderRow>, string]>([
    ['quantity 0', { quantity: 0 }, 'orders_quantity_positive'],
    ['a ship date after the year 9999', { ship_date: '9999-12-31T23:59:59.9999Z' }, 'orders_ship_date_rfc3339'],
    ['complete while cancelled', { status: 'cancelled', complete: true }, 'orders_complete_implies_shipped'],
    ['no cancelled_at', { status: 'cancelled', cancelled_at: null }, 'orders_cancelled_at_iff_cancelled'],
  ])('rejects a row with %s', async (_what, overrides, constraint) => {
    expect(await insert('orders', { ...buildOrder(overrides) })).toBe(constraint);
  });
});
