import { cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { type LimitState, parseLimitHeaders } from '../helpers/limit-headers.js';
import { petstore } from '../helpers/petstore.js';
import { startTestService, useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

const ABSENT = '404404';
const BAN_SECONDS = 300;
/** So long after its first rejection, those of a client count towards a ban; the rules are tested with `decide`. */
const IN_FLIGHT_MS = 2_000;
const BAN_AFTER_TEN = [...Array<string>(9).fill('rate_limit_exceeded'), 'api_key_banned'];

const lines: { rejection?: string }[] = [];
const context = useTestService({ requestLog: (line) => lines.push(line) });
beforeEach(() => {
  // Past every ban of an earlier test.
  context.service.clock.advance(3_600_000);
});

const request = (key?: string): Promise<Response> => cancelOrder(context.service.baseUrl, ABSENT, key);
const stateOf = (response: Response): LimitState => parseLimitHeaders(response.headers, context.service.clock.now());

async function codesOf(count: number, key?: string): Promise<string[]> {
  const codes: string[] = [];
  for (let number = 0; number < count; number++) {
    codes.push((await errorOf(await request(key))).code);
  }
  return codes;
}

/** The second request in a minute exceeds its limit. */
const insertSmallKey = (): Promise<{ id: string; key: string }> =>
  insertKey(context.service.db, { requests_per_minute: 1, requests_per_day: 1_000 });

/** Sends requests of a caller that exceeds its limit with the first one, and that goes on after it has received its first 429. */
async function codesOfRepeated(count: number, key?: string): Promise<string[]> {
  const first = await codesOf(1, key);
  context.service.clock.advance(IN_FLIGHT_MS);
  return [...first, ...(await codesOf(count - 1, key))];
}

describe('a key', () => {
  it('is banned for five minutes with its tenth rejection within a minute, whatever it sends meanwhile', async () => {
    const { clock } = context.service;
    const { key } = await insertSmallKey();
    lines.length = 0;
    expect(await codesOf(1, key)).toEqual(['order_not_found']);
    expect(await codesOfRepeated(10, key)).toEqual(BAN_AFTER_TEN);
    const response = await request(key);
    expect(stateOf(response)).toMatchObject({
      limit: 1,
      remaining: 0,
      resetAt: clock.now() / 1_000 + BAN_SECONDS,
      minute: { quota: 1, remaining: 0, resetsInSeconds: BAN_SECONDS },
      day: { quota: 1_000, remaining: 0, resetsInSeconds: BAN_SECONDS },
      retryAfter: BAN_SECONDS,
    });
    clock.advance(BAN_SECONDS * 1_000 - 1);
    expect(await codesOf(2, key)).toEqual(['api_key_banned', 'api_key_banned']);
    clock.advance(1);
    const free = await request(key);
    expect(free.status).toBe(404);
    // One request before the ban and this one; the rejected ones consumed nothing.
    expect(stateOf(free)).toMatchObject({ day: { remaining: 998 } });
    await waitFor(() => lines.length === 15, 'all requests are logged');
    const reasons = [undefined, ...Array<string>(9).fill('per_minute'), ...Array<string>(4).fill('banned'), undefined];
    expect(lines.map(({ rejection }) => rejection)).toEqual(reasons);
  });

  it('is admitted again, with its counts, when an operator lifts its ban, and another one is not', async () => {
    const [{ id, key }, other] = [await insertSmallKey(), await insertSmallKey()];
    for (const each of [key, other.key]) {
      await codesOf(1, each);
      await codesOfRepeated(10, each);
    }
    context.service.clock.advance(60_000);
    expect(await codesOf(1, key)).toEqual(['api_key_banned']);
    const unban = await petstore(['keys', 'unban', id], { DATABASE_URL: context.service.url });
    expect(unban).toMatchObject({ exitCode: 0, stderr: '' });
    let response = await request(key);
    await waitFor(async () => {
      response = response.status === 429 ? await request(key) : response;
      return response.status !== 429;
    }, 'the key is admitted again');
    expect(response.status).toBe(404);
    expect(stateOf(response)).toMatchObject({ day: { remaining: 998 } });
    // Its rejections are cleared.
    expect(await codesOfRepeated(10, key)).toEqual(BAN_AFTER_TEN);
    expect(await codesOf(1, other.key)).toEqual(['api_key_banned']);
  });
});

it('an address is banned with its tenth rejection within a minute, and valid keys from it are not', async () => {
  const { key } = await insertSmallKey();
  expect(await codesOf(60)).toEqual(Array(60).fill('missing_api_key'));
  expect(await codesOfRepeated(11)).toEqual([
    ...Array<string>(9).fill('rate_limit_exceeded'),
    'address_banned',
    'address_banned',
  ]);
  const banned = await listOrders(context.service.baseUrl, 'not-a-key');
  expect(stateOf(banned)).toMatchObject({ limit: 60, remaining: 0, retryAfter: BAN_SECONDS });
  expect((await errorOf(banned)).code).toBe('address_banned');
  expect(await codesOf(1, key)).toEqual(['order_not_found']);
  context.service.clock.advance(BAN_SECONDS * 1_000);
  expect(await codesOf(1)).toEqual(['missing_api_key']);
});

it('the configuration sets the threshold, the window and the duration of bans', async () => {
  const service = await startTestService({
    database: context.service,
    environment: { RATE_LIMIT_BAN_THRESHOLD: '2', RATE_LIMIT_BAN_WINDOW_SECONDS: '5', RATE_LIMIT_BAN_SECONDS: '7' },
  });
  const { key } = await insertSmallKey();
  const outcomes: [code: string, retryAfter: number | undefined][] = [];
  // The clock starts at half a minute: 30 s, 31 s, 36 s (the rejection at 31 s no longer counts), 38 s.
  for (const advanceMs of [0, 1_000, 5_000, 2_000]) {
    service.clock.advance(advanceMs);
    const response = await cancelOrder(service.baseUrl, ABSENT, key);
    const { retryAfter } = parseLimitHeaders(response.headers, service.clock.now());
    outcomes.push([(await errorOf(response)).code, retryAfter]);
  }
  await service.stop();
  expect(outcomes).toEqual([
    ['order_not_found', undefined],
    ['rate_limit_exceeded', 29],
    ['rate_limit_exceeded', 24],
    ['api_key_banned', 7],
  ]);
});
