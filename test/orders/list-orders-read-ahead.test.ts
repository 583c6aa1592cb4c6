import type { Request, Response } from 'express';
import { DomainError } from '../../src/errors/domain-error.js';
import { ListVersions } from '../../src/orders/list/list-versions.js';
import { OrderListReader } from '../../src/orders/list/order-list.reader.js';
import { OrderListResponder } from '../../src/orders/list/order-list.responder.js';
import type { Verdict } from '../../src/rate-limit/decision.js';
import { RateLimiter } from '../../src/rate-limit/rate-limiter.js';
import { expectErrorResponse } from '../helpers/expect-error-response.js';
import { useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { exchange, requestText } from '../helpers/wire.js';

const context = useTestService();
let reads: number;
let isDown: boolean;
beforeEach(() => {
  [reads, isDown] = [0, false];
  const versions = context.service.app.get(ListVersions);
  const read = versions.currentName;
  jest.spyOn(versions, 'currentName').mockImplementation(() => {
    reads++;
    return isDown ? Promise.reject(new DomainError('service_unavailable', 'The database is down.')) : read();
  });
});

/** Holds the next request where it waits for Redis. */
function holdNextDecision(change: (verdict: Verdict) => Verdict = (verdict) => verdict): () => void {
  const store = context.service.app.get(RateLimiter).keys;
  const consume = store.consume.bind(store);
  let release = (): void => undefined;
  const released = new Promise<void>((resolve) => (release = resolve));
  jest.spyOn(store, 'consume').mockImplementationOnce(async (...subject) => {
    await released;
    return change(await consume(...subject));
  });
  return release;
}

/** Responses that begin in the same turn of the event loop at once, and those that have waited. */
const BEGUN_PER_TURN = 32;

it.each(['GET', 'HEAD'])('%s reads the version while it is being counted', async (method) => {
  const release = holdNextDecision();
  const request = requestText(method, '/v1/store/orders', { key: context.key });
  const response = exchange(context.service.port, request, { until: 1, methods: [method] });
  await waitFor(() => reads === 1, 'the version is being read');
  release();
  const { responses } = await response;
  expect(responses[0]?.status).toBe(200);
  expect(responses[0]?.headers.get('etag')).toHaveLength(1);
  expect(reads).toBe(1);
});

it('fails an admitted request that cannot read the version, and no rejected one', async () => {
  isDown = true;
  const request = requestText('GET', '/v1/store/orders', { key: context.key });
  holdNextDecision((verdict) => ({ ...verdict, outcome: 'limited' }))();
  const rejected = await exchange(context.service.port, request, { until: 1 });
  expectErrorResponse(rejected.responses[0], 429, 'rate_limit_exceeded');
  expect(reads).toBe(1);
  holdNextDecision()();
  const admitted = await exchange(context.service.port, request, { until: 1 });
  expectErrorResponse(admitted.responses[0], 503, 'service_unavailable');
});

it('reads nothing for a list that is rejected without waiting, and for other requests', async () => {
  await exchange(context.service.port, requestText('GET', '/v1/store/orders'), { until: 1 });
  for (const [method, path] of [
    ['DELETE', '/v1/store/orders/4'],
    ['POST', '/v1/store/orders'],
    ['GET', '/v1/store/other'],
  ] as const) {
    holdNextDecision()();
    await exchange(context.service.port, requestText(method, path, { key: context.key }), { until: 1 });
  }
  expect(reads).toBe(0);
});

it('lists of one key that share what was read begin in turns, so that others go on between them', async () => {
  const { app } = context.service;
  const responder = app.get(OrderListResponder);
  jest.spyOn(app.get(ListVersions), 'currentName').mockResolvedValue('version');
  const begun: string[] = [];
  jest.spyOn(app.get(OrderListReader), 'open').mockImplementation((_name, { caller }) => {
    begun.push(caller);
    return Promise.reject(new DomainError('service_unavailable', 'Only the order matters.'));
  });
  const request = { headers: {}, acceptsEncodings: () => 'gzip' } as unknown as Request;
  for (const caller of [...Array<string>(1_000).fill('many'), 'other']) {
    responder.respond(request, {} as Response, caller).catch(() => undefined);
  }
  const turns: number[] = [];
  for (let before = 0; before < 1_001; before = begun.length) {
    await new Promise((resolve) => setImmediate(resolve));
    turns.push(begun.length - before);
  }
  expect(Math.max(...turns)).toBeLessThanOrEqual(2 * BEGUN_PER_TURN);
  expect(begun.indexOf('other')).toBeLessThan(3 * BEGUN_PER_TURN);
});
