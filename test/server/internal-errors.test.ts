import {
  HttpException,
  MethodNotAllowedException,
  PayloadTooLargeException,
  ServiceUnavailableException,
  UnsupportedMediaTypeException,
} from '@nestjs/common';
import { DomainError } from '../../src/errors/domain-error.js';
import { OrdersService } from '../../src/orders/orders.service.js';
import { UsageRecorder } from '../../src/usage/usage-recorder.js';
import { cancelOrder, errorOf, listOrders, outcomeOfCancel } from '../helpers/api.js';
import { insertKey, insertOrder, statusOf } from '../helpers/builders.js';
import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import { useTestService } from '../helpers/test-service.js';
import { exchange, requestText, responseTo } from '../helpers/wire.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { waitFor } from '../helpers/wait-for.js';

const TEMPORARY = {
  code: 'service_unavailable',
  message: 'The service is temporarily unavailable; retry shortly.',
  status: 503,
};

describe('errors', () => {
  // Each does as here, unless a test makes it fail once.
  const cancel = jest.fn(() => Promise.reject(new DomainError('order_not_found')));
  const countUsage = jest.fn();
  const logRequest = jest.fn();
  const logError = jest.fn();
  const logWarning = jest.fn();
  const context = useTestService({
    requestLog: logRequest,
    logger: { log: () => undefined, warn: logWarning, error: logError },
    override: (module) =>
      module
        .overrideProvider(OrdersService)
        .useValue({ cancel })
        // The guard of the limits calls it.
        .overrideProvider(UsageRecorder)
        .useValue({ add: countUsage }),
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
      ['an error with a cause', new Error('outer', { cause: new Error(SECRET) })],
      ['a library error with its own status', new DatabaseError(SECRET)],
      ['a framework error with status 500', new HttpException({ secret: SECRET }, 500)],
      ['an object', { status: 404, message: SECRET }],
      ['undefined', undefined],
    ])('%s', async (_what, thrown) => {
      cancel.mockRejectedValueOnce(thrown);
      const request = requestText('DELETE', '/v1/store/orders/404404', { key: context.key });
      const { responses } = await exchange(context.service.port, request.repeat(2), { until: 2 });
      // The connection and the service continue to work.
      expectErrorResponse(responses[1], 404, 'order_not_found');
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

  it.each([
    [413, 'bad_request', new PayloadTooLargeException('The body is too large.'), 'The body is too large.'],
    [415, 'bad_request', new UnsupportedMediaTypeException('The body must be JSON.'), 'The body must be JSON.'],
    [405, 'method_not_allowed', new MethodNotAllowedException(), 'This path does not support the method.'],
    [503, 'service_unavailable', new ServiceUnavailableException(), TEMPORARY.message],
  ])('keeps the status of an exception of Nest: %i %s', async (status, code, thrown, message) => {
    cancel.mockRejectedValueOnce(thrown);
    const headers = { Authorization: `Bearer ${context.key}` };
    const response = await fetch(`${context.service.baseUrl}/v1/store/orders/1`, { method: 'DELETE', headers });
    expect([response.status, await response.json()]).toEqual([status, { code, message, status }]);
    expect(response.headers.get('content-type')).toBe('application/json');
    expect(response.headers.get('retry-after')).toBe(status === 503 ? '1' : null);
  });

  describe('an error of a dependency ends only the request that meets it', () => {
    const boom = (): never => {
      throw new Error(SECRET);
    };
    const failGuard = (): unknown => countUsage.mockImplementationOnce(boom);

    test.each<[what: string, status: 500 | 404, inject: () => unknown]>([
      ['a guard throws', 500, failGuard],
      ['the logger of an ended request throws', 404, () => logRequest.mockImplementationOnce(boom)],
      ['the logger of an error throws', 500, () => [failGuard(), logError.mockImplementationOnce(boom)]],
    ])('%s: %i', async (_what, status, inject) => {
      const request = requestText('DELETE', '/v1/store/orders/404404', { key: context.key });
      inject();
      const { responses } = await exchange(context.service.port, request, { until: 2, thenSend: request });
      expectErrorResponse(responses[0], status, status === 500 ? 'internal_error' : 'order_not_found');
      // Of its key, also when it was not counted.
      expect(responses[0]?.headers.get('x-ratelimit-limit')).toEqual(['1000000']);
      expectErrorResponse(responses[1], 404, 'order_not_found');
      const other = await responseTo(context.service.port, 'GET', '/v1/nowhere', { key: context.key });
      expectErrorResponse(other, 404, 'route_not_found');
    });

    it('the look-up of a key fails: 500, with the limits of an anonymous caller', async () => {
      const { app, db, baseUrl } = context.service;
      const fresh = await insertKey(db);
      const fromMemory = async (): Promise<number> =>
        (await ServiceMetrics.of(app)).sum('petstore_api_key_lookups_total', 'memory');
      // A notification that arrives during a look-up keeps its result out of the cache.
      await waitFor(async () => {
        const before = await fromMemory();
        await cancelOrder(baseUrl, '404404', context.key);
        return (await fromMemory()) > before;
      }, 'the key is cached');
      await db.query('ALTER TABLE api_keys RENAME TO hidden');
      const { status, headers } = await cancelOrder(baseUrl, '404404', fresh.key);
      expect([status, headers.get('x-ratelimit-limit')]).toEqual([500, '60']);
      const outcomes = [await outcomeOfCancel(baseUrl, '404404', fresh.key)];
      outcomes.push(await outcomeOfCancel(baseUrl, '404404', context.key));
      await db.query('ALTER TABLE hidden RENAME TO api_keys');
      outcomes.push(await outcomeOfCancel(baseUrl, '404404', fresh.key));
      expect(outcomes).toEqual(['500 internal_error', '404 order_not_found', '404 order_not_found']);
    });
  });

  test.each<[string, 'warn' | 'error' | undefined, unknown, unknown]>([
    [
      'a 503 is logged with its reason',
      'warn',
      new DomainError('service_unavailable', 'Retry shortly.', { cause: new Error('too many clients') }),
      'too many clients',
    ],
    ['a 500 is logged with its stack', 'error', new Error('broken'), expect.stringMatching(/^Error: broken\n +at /)],
    [
      'an error of the client is not logged',
      undefined,
      new DomainError('order_not_found', 'No such order.'),
      undefined,
    ],
  ])('%s', async (_what, level, thrown, detail) => {
    cancel.mockRejectedValueOnce(thrown);
    logWarning.mockClear();
    logError.mockClear();
    const headers = ['X-Request-Id: failed-1'];
    await responseTo(context.service.port, 'DELETE', '/v1/store/orders/1', { key: context.key, headers });
    const line = expect.objectContaining({ requestId: 'failed-1', method: 'DELETE', detail }) as object;
    const calls = [[expect.any(String), line, 'Errors']];
    const expected = level === undefined ? {} : { [level]: calls };
    expect({ warn: logWarning.mock.calls, error: logError.mock.calls }).toEqual({ warn: [], error: [], ...expected });
  });
});

describe('a cancel that fails in PostgreSQL returns 503 with Retry-After, or 500 without details, and can be repeated', () => {
  const context = useTestService();
  beforeAll(async () => {
    await context.service.db.query(`
    CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN RAISE EXCEPTION 'of the test' USING ERRCODE = TG_ARGV[0]; END $$`);
  });

  const LOCKED = { ...TEMPORARY, message: 'The order is locked by another transaction; retry shortly.' };
  const PERMANENT = { code: 'internal_error', message: 'Internal server error.', status: 500 };

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
