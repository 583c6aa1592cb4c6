import { cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertOrder, statusOf } from '../helpers/builders.js';
import { useTestService } from '../helpers/test-service.js';

const context = useTestService();
beforeAll(async () => {
  await context.service.db.query(`
    CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN RAISE EXCEPTION 'of the test' USING ERRCODE = TG_ARGV[0]; END $$`);
});

const TEMPORARY = {
  code: 'service_unavailable',
  message: 'The service is temporarily unavailable; retry shortly.',
  status: 503,
};
const LOCKED = { ...TEMPORARY, message: 'The order is locked by another transaction; retry shortly.' };
const PERMANENT = { code: 'internal_error', message: 'Internal server error.', status: 500 };

describe('a cancel that fails in PostgreSQL returns 503 with Retry-After, or 500 without details, and can be repeated', () => {
  it.each([
    ['a full disk', '53100', TEMPORARY],
    ['a statement timeout', '57014', TEMPORARY],
    ['a server that shuts down', '57P01', TEMPORARY],
    ['a disk error', '58030', TEMPORARY],
    ['a connection failure', '08006', TEMPORARY],
    ['a server that has become a standby', '25006', TEMPORARY],
    ['an idle transaction timeout', '25P03', TEMPORARY],
    ['a deadlock', '40P01', TEMPORARY],
    ['a serialization failure', '40001', TEMPORARY],
    ['a lock timeout', '55P03', LOCKED],
    ['a violated check constraint', '23514', PERMANENT],
    ['a missing privilege', '42501', PERMANENT],
    ['an internal error of PostgreSQL', 'XX000', PERMANENT],
  ])('%s (%s)', async (_what, sqlState, error) => {
    const { service, key } = context;
    const id = await insertOrder(service.db);
    await service.db.query(
      `CREATE TRIGGER fail BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION fail('${sqlState}')`,
    );
    const response = await cancelOrder(service.baseUrl, id, key);
    await service.db.query('DROP TRIGGER fail ON orders');
    expect(await errorOf(response)).toEqual(error);
    expect(response.headers.get('retry-after')).toBe(error.status === 503 ? '1' : null);
    expect(await statusOf(service.db, id)).toBe('pending');
    expect((await listOrders(service.baseUrl, key)).status).toBe(200);
    expect((await cancelOrder(service.baseUrl, id, key)).status).toBe(204);
  });
});
