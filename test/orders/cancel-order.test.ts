import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { cancelOrder } from '../helpers/api.js';
import { startTestService, type TestService } from '../helpers/test-service.js';

let service: TestService;
let key: string;

beforeAll(async () => {
  service = await startTestService();
  ({ key } = await insertKey(service.db));
});
afterAll(() => service.stop());

describe('DELETE /v1/store/orders/{orderId}', () => {
  it('cancels a pending order and leaves every other order alone', async () => {
    const [id, other] = [await insertOrder(service.db), await insertOrder(service.db)];
    const response = await cancelOrder(service.baseUrl, id, key);
    expect(response.status).toBe(204);
    expect(await response.text()).toBe('');
    expect(await statusOf(service.db, id)).toBe('cancelled');
    expect(await statusOf(service.db, other)).toBe('pending');
  });
});
