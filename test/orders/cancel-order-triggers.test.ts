import { CancelBatcher } from '../../src/orders/cancel-batcher.js';
import { OrdersRepository } from '../../src/orders/orders.repository.js';
import { cancelOrder, errorOf } from '../helpers/api.js';
import { insertOrder, statusOf } from '../helpers/builders.js';
import { useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

const context = useTestService();
afterEach(async () => {
  jest.restoreAllMocks();
  await context.service.db.query('DROP FUNCTION IF EXISTS of_the_operator() CASCADE');
});

/** Creates a trigger of the operator that runs before an update of one order. */
async function createTrigger(id: string, body: string): Promise<void> {
  await context.service.db.query(`
    CREATE FUNCTION of_the_operator() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN IF OLD.id = ${id} THEN ${body} END IF; RETURN NEW; END $$;
    CREATE TRIGGER of_the_operator BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION of_the_operator()`);
}

async function outcome(id: string): Promise<string> {
  const response = await cancelOrder(context.service.baseUrl, id, context.key);
  return response.status === 204 ? '204' : `${response.status} ${(await errorOf(response)).code}`;
}

/** Cancels the orders so that all but the first two are in one batch. */
async function cancelInOneBatch(ids: readonly string[]): Promise<Map<string, string>> {
  const repository = context.service.app.get(OrdersRepository);
  const cancels = jest.spyOn(context.service.app.get(CancelBatcher), 'cancel');
  const cancelUnlocked = repository.cancelUnlocked.bind(repository);
  const statements = jest.spyOn(repository, 'cancelUnlocked').mockImplementation(async (batch) => {
    await waitFor(() => cancels.mock.calls.length === ids.length, 'all cancels have arrived');
    return cancelUnlocked(batch);
  });
  const outcomes = await Promise.all(ids.map(async (id) => [id, await outcome(id)] as const));
  expect(statements.mock.calls.some(([batch]) => batch.length >= ids.length / 2)).toBe(true);
  return new Map(outcomes);
}

async function insertOrders(count: number): Promise<string[]> {
  return Promise.all(Array.from({ length: count }, () => insertOrder(context.service.db)));
}

describe('a trigger for one order', () => {
  it.each([
    ['raises an error', "RAISE EXCEPTION 'not this one' USING ERRCODE = 'P0001';", '500 internal_error'],
    ['reports a conflict', "RAISE EXCEPTION 'not this one' USING ERRCODE = '40001';", '503 service_unavailable'],
    ['reports a deadlock', "RAISE EXCEPTION 'not this one' USING ERRCODE = '40P01';", '503 service_unavailable'],
    ['suppresses the update', 'RETURN NULL;', '500 internal_error'],
  ])('that %s fails the cancel of this order alone, of sixty in a batch', async (_what, body, expected) => {
    const ids = await insertOrders(60);
    const bad = ids[59]!;
    await createTrigger(bad, body);
    const outcomes = await cancelInOneBatch(ids);
    expect(ids.filter((id) => outcomes.get(id) !== '204')).toEqual([bad]);
    expect(outcomes.get(bad)).toBe(expected);
    expect(await statusOf(context.service.db, bad)).toBe('pending');
    expect(await statusOf(context.service.db, ids[30]!)).toBe('cancelled');
  });
});

describe('a trigger that suppresses the update of a pending order', () => {
  it('makes its cancel return 500 internal_error, not 404, and the order stays pending', async () => {
    const [bad, other] = [await insertOrder(context.service.db), await insertOrder(context.service.db)];
    await createTrigger(bad, 'RETURN NULL;');
    expect(await outcome(bad)).toBe('500 internal_error');
    expect(await statusOf(context.service.db, bad)).toBe('pending');
    expect(await outcome(other)).toBe('204');
  });
});
