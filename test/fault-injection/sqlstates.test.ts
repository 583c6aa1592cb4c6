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

/** Has PostgreSQL fail every change of an order as it would in the trouble that this SQLSTATE stands for. */
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

describe('a cancel that PostgreSQL cannot carry out for the moment is answered 503 and can be tried again:', () => {
  it.each([
    ['a full disk', '53100'],
    ['no memory left', '53200'],
    ['no connection left', '53300'],
    ['a limit of its configuration', '53400'],
    ['a statement that took too long', '57014'],
    ['a server that stops', '57P01'],
    ['a server that has crashed', '57P02'],
    ['a server that starts', '57P03'],
    ['a disk that fails', '58030'],
    ['a server that has become a standby', '25006'],
    ['a transaction that was idle for too long', '25P03'],
    ['a deadlock', '40P01'],
    ['a conflict of transactions', '40001'],
    ['a lock that is not to be had', '55P03'],
    ['a connection that failed', '08006'],
  ])('%s', async (_what, sqlState) => {
    const { response, status } = await cancelWhile(sqlState);
    expect([sqlState, response.status, (await errorOf(response)).code]).toEqual([sqlState, 503, 'service_unavailable']);
    expect(response.headers.get('retry-after')).toBe('1');
    expect(status).toBe('pending');
  });
});

describe('a cancel that PostgreSQL will never carry out is answered 500 without a word of the reason:', () => {
  it.each([
    ['a rule that is broken', '23514'],
    ['a permission that is missing', '42501'],
    ['a defect in PostgreSQL', 'XX000'],
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
