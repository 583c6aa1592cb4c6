import { inBackground } from '../../src/common/in-background.js';
import { DomainError } from '../../src/errors/domain-error.js';
import { ListVersions } from '../../src/orders/list/list-versions.js';
import { QUOTA_STORE, type QuotaStore } from '../../src/rate-limit/quota-store.js';
import type { Verdict } from '../../src/rate-limit/verdict.js';
import { insertOrder } from '../helpers/builders.js';
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
  const read = versions.currentName.bind(versions);
  jest.spyOn(versions, 'currentName').mockImplementation(() => {
    reads++;
    return isDown ? Promise.reject(new DomainError('service_unavailable', 'The database is down.')) : read();
  });
});
afterEach(() => {
  jest.restoreAllMocks();
});

/** Holds the next request where it waits for Redis. */
function holdNextDecision(change: (verdict: Verdict) => Verdict = (verdict) => verdict): () => void {
  const store = context.service.app.get<QuotaStore>(QUOTA_STORE);
  const consume = store.consume.bind(store);
  let release = (): void => undefined;
  const released = new Promise<void>((resolve) => (release = resolve));
  jest.spyOn(store, 'consume').mockImplementationOnce(async (...subject) => {
    await released;
    return change(await consume(...subject));
  });
  return release;
}

/** Responses that have waited and begin in the same turn of the event loop. */
const WAITED_PER_TURN = 32;

const CONDITION = 'If-None-Match: "of another version"';

test.each([
  ['a list', 'GET', []],
  ['a conditional list', 'GET', [CONDITION]],
  ['HEAD', 'HEAD', []],
])('%s reads the version while it is being counted', async (_what, method, headers) => {
  await insertOrder(context.service.db);
  const release = holdNextDecision();
  const request = requestText(method, '/v1/store/orders', { key: context.key, headers });
  const response = exchange(context.service.port, request, { until: 1, methods: [method] });
  await waitFor(() => reads === 1, 'the version is being read');
  release();
  const { responses } = await response;
  expect(responses[0]?.status).toBe(200);
  expect(responses[0]?.headers.get('etag')).toHaveLength(1);
  expect(reads).toBe(1);
});

it('shows what was committed before the request, and not what an earlier request has read', async () => {
  const list = async (): Promise<string | undefined> => {
    const request = requestText('GET', '/v1/store/orders', { key: context.key });
    return (await exchange(context.service.port, request, { until: 1 })).responses[0]?.body;
  };
  await list();
  await insertOrder(context.service.db, { id: '4711' });
  holdNextDecision()();
  expect(await list()).toContain('"id":4711,');
});

test.each([[[]], [[CONDITION]]])(
  'a failure is that of an admitted request, and nothing to a rejected one: %j',
  async (headers) => {
    isDown = true;
    const request = requestText('GET', '/v1/store/orders', { key: context.key, headers });
    holdNextDecision((verdict) => ({ ...verdict, outcome: 'limited' }))();
    const rejected = await exchange(context.service.port, request, { until: 1 });
    expectErrorResponse(rejected.responses[0], 429, 'rate_limit_exceeded');
    expect(reads).toBe(1);
    holdNextDecision()();
    const admitted = await exchange(context.service.port, request, { until: 1 });
    expectErrorResponse(admitted.responses[0], 503, 'service_unavailable');
  },
);

it('reads nothing for other requests', async () => {
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

describe('lists that share what was read', () => {
  it.each([
    ['list', 128],
    ['headers', 512],
  ] as const)('get it in turns, so that others go on between them: %s', async (response, perTurn) => {
    const versions = context.service.app.get(ListVersions);
    const shared = Promise.resolve('version');
    const order: string[] = [];
    for (const caller of [...Array<string>(1_000).fill('many'), 'other']) {
      inBackground(versions.inTurn(shared, caller, response).then((version) => order.push(`${caller}: ${version}`)));
    }
    const turns: number[] = [];
    for (let before = 0; before < 1_001; before = order.length) {
      await new Promise((resolve) => setImmediate(resolve));
      turns.push(order.length - before);
    }
    expect(turns[0]).toBeLessThanOrEqual(perTurn + WAITED_PER_TURN);
    expect(Math.max(...turns.slice(1))).toBe(WAITED_PER_TURN);
    expect(order.indexOf('other: version')).toBeLessThan(perTurn + 2 * WAITED_PER_TURN);
  });

  it.each([
    ['a list', 'GET', []],
    ['a conditional list', 'GET', ['If-None-Match: *']],
    ['HEAD', 'HEAD', []],
  ])('wait for their turn: %s', async (_what, method, headers) => {
    const versions = context.service.app.get(ListVersions);
    const inTurn = jest
      .spyOn(versions, 'inTurn')
      .mockImplementation(() => Promise.reject(new DomainError('service_unavailable', 'It is not its turn.')));
    const request = requestText(method, '/v1/store/orders', { key: context.key, headers });
    const { responses } = await exchange(context.service.port, request, { until: 1, methods: [method] });
    expect(responses[0]?.status).toBe(503);
    expect(inTurn).toHaveBeenCalledTimes(1);
  });
});
