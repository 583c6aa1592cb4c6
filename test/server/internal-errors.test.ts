import { HttpException } from '@nestjs/common';
import { OrdersService } from '../../src/orders/orders.service.js';
import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import { useTestService } from '../helpers/test-service.js';
import { exchange, requestText } from '../helpers/wire.js';

const context = useTestService();
afterEach(() => {
  jest.restoreAllMocks();
});

/** Contained in every value that is thrown below. */
const SECRET = 'hunter2';

class DatabaseError extends Error {
  readonly code = '42P01';
  readonly detail = SECRET;
  readonly status = 418;
}

describe('returns the same 500 internal_error without details when a handler throws', () => {
  test.each<[string, unknown]>([
    ['an error', new Error(`password ${SECRET} is wrong`)],
    ['an error with a cause', new Error('outer', { cause: new Error(SECRET) })],
    ['a library error with its own status', new DatabaseError(SECRET)],
    ['a framework error with status 500', new HttpException({ secret: SECRET }, 500)],
    ['a framework error with status 502', new HttpException(SECRET, 502)],
    ['a string', SECRET],
    ['an object', { status: 404, message: SECRET }],
    ['undefined', undefined],
    ['null', null],
  ])('%s', async (_what, thrown) => {
    jest.spyOn(context.service.app.get(OrdersService), 'cancel').mockRejectedValue(thrown);
    const { responses } = await exchange(
      context.service.port,
      requestText('DELETE', '/v1/store/orders/1', { key: context.key }),
      {
        until: 1,
      },
    );
    expectErrorResponse(responses[0], 500, 'internal_error');
    expectLimits(responses[0], 'limits');
    expect(JSON.parse(responses[0]?.body ?? '')).toEqual({
      code: 'internal_error',
      message: 'Internal server error.',
      status: 500,
    });
    expect(responses[0]?.headers.get('retry-after')).toBeUndefined();
    expect(JSON.stringify([...(responses[0]?.headers ?? [])])).not.toContain(SECRET);
  });
});

describe('after an unexpected error', () => {
  it('the connection and the service continue to work', async () => {
    jest.spyOn(context.service.app.get(OrdersService), 'cancel').mockRejectedValueOnce(new Error(SECRET));
    const cancel = requestText('DELETE', '/v1/store/orders/404404', { key: context.key });
    const { responses } = await exchange(context.service.port, cancel + cancel, { until: 2 });
    expectErrorResponse(responses[0], 500, 'internal_error');
    expectErrorResponse(responses[1], 404, 'order_not_found');
  });
});
