import { cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { startTestService, type TestService } from '../helpers/test-service.js';

let service: TestService;
let key: string;
beforeAll(async () => {
  service = await startTestService();
  ({ key } = await insertKey(service.db));
  await service.db.query(`
    CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN RAISE EXCEPTION 'of the test' USING ERRCODE = TG_ARGV[0]; END $$`);
});
afterAll(() => service.stop());

/** Cancels an order while a trigger raises this SQLSTATE for every update. */
async function cancelWhile(sqlState: string): Promise<{ response: Response; status: string | undefined }> {
  const id = await insertOrder(service.db);
  await service.db.query(
    `CREATE TRIGGER fail BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION fail('${sqlState}')`,
  );
  const response = await cancelOrder(service.baseUrl, id, key);
  await service.db.query('DROP TRIGGER fail ON orders');
  const status = await statusOf(service.db, id);
  expect((await listOrders(service.baseUrl, key)).status).toBe(200);
  expect((await cancelOrder(service.baseUrl, id, key)).status).toBe(204);
  return { response, status };
}

describe('a cancel returns 503 with Retry-After, and can be repeated, after the temporary error', () => {
  it.each([
    ['a full disk', '53100'],
    ['out of memory', '53200'],
    ['too many connections', '53300'],
    ['a configured limit exceeded', '53400'],
    ['a statement timeout', '57014'],
    ['a server that shuts down', '57P01'],
    ['a server that has crashed', '57P02'],
    ['a server that starts', '57P03'],
    ['a disk error', '58030'],
    ['a server that has become a standby', '25006'],
    ['an idle transaction timeout', '25P03'],
    ['a deadlock', '40P01'],
    ['a serialization failure', '40001'],
    ['a lock timeout', '55P03'],
    ['a connection failure', '08006'],
  ])('%s', async (_what, sqlState) => {
    const { response, status } = await cancelWhile(sqlState);
    expect([sqlState, response.status, (await errorOf(response)).code]).toEqual([sqlState, 503, 'service_unavailable']);
    expect(response.headers.get('retry-after')).toBe('1');
    expect(status).toBe('pending');
  });
});

describe('a cancel returns 500 without details after the permanent error', () => {
  it.each([
    ['a violated check constraint', '23514'],
    ['a missing privilege', '42501'],
    ['an internal error of PostgreSQL', 'XX000'],
  ])('%s', async (_what, sqlState) => {
    const { response, status } = await cancelWhile(sqlState);
    expect([sqlState, response.status]).toEqual([sqlState, 500]);
    expect(await errorOf(response)).toEqual({
      code: 'internal_error',
      message: 'Internal server error.',
      status: 500,
    });
    expect(status).toBe('pending');
  });
});
