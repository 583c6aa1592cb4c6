import { generateKey } from '../../src/api-keys/api-keys.admin.js';
import { call, cancelOrder, errorOf, listOrders } from '../helpers/api.js';
import { insertKey, insertOrder } from '../helpers/builders.js';
import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import { useTestService } from '../helpers/test-service.js';
import { type WireResponse, exchange, requestText, responseTo } from '../helpers/wire.js';

const context = useTestService();

const REALM = 'Bearer realm="petstore"';

const ask = (headers: readonly string[], method = 'GET'): Promise<WireResponse> =>
  responseTo(context.service.port, method, '/v1/store/orders', { headers });
const statusOf = async (key: string): Promise<number> =>
  (await call(context.service.baseUrl, 'HEAD', '/store/orders', key)).status;

describe('a request without a key gets 401 without an error code of RFC 6750', () => {
  // `readBearer` is tested with every other form.
  it.each([
    ['no header', []],
    ['the scheme and spaces', ['Authorization: Bearer   ']],
    ['the key in other headers', ['X-Api-Key: KEY', 'Proxy-Authorization: Bearer KEY', 'Cookie: key=KEY']],
  ])('%s', async (_what, headers) => {
    const response = await ask(headers.map((line) => line.replace('KEY', context.key)));
    expectErrorResponse(response, 401, 'missing_api_key');
    expectLimits(response, 'limits');
    expect(response.headers.get('www-authenticate')).toEqual([REALM]);
  });

  it('the key in the URL', async () => {
    const target = `/v1/store/orders?access_token=${context.key}&api_key=${context.key}`;
    expectErrorResponse(await responseTo(context.service.port, 'GET', target), 401, 'missing_api_key');
  });
});

describe('a request with an invalid key gets 401 with the error code of RFC 6750', () => {
  it.each([
    ['two tokens', ['Authorization: Bearer KEY KEY']],
    ['two headers', ['Authorization: Bearer KEY', 'Authorization: Bearer KEY']],
    ['a no-break space after it', ['Authorization: Bearer KEY\xa0']],
    ['another last character', ['Authorization: Bearer CHANGED']],
    ['a well-formed key that does not exist', ['Authorization: Bearer UNKNOWN']],
  ])('%s', async (_what, headers) => {
    const changed = context.key.slice(0, -1) + (context.key.endsWith('a') ? 'b' : 'a');
    const lines = headers.map((line) => line.replaceAll('KEY', context.key).replace('CHANGED', changed));
    const response = await ask(lines.map((line) => line.replace('UNKNOWN', generateKey())));
    expectErrorResponse(response, 401, 'invalid_api_key');
    expectLimits(response, 'limits');
    expect(response.headers.get('www-authenticate')).toEqual([`${REALM}, error="invalid_token"`]);
  });

  it('two Authorization headers, however many others are between them', async () => {
    const bearer = `Authorization: Bearer ${context.key}`;
    const { status } = await ask([bearer, ...Array<string>(2_100).fill('a:'), bearer]);
    // From Node 22 on, the head is too large.
    expect([401, 431]).toContain(status);
  });

  it('an unknown, expired or revoked key, all with the same response byte for byte, looked up before or not', async () => {
    const past = new Date(context.service.clock.now() - 1);
    const keys = {
      unknown: generateKey(),
      expired: (await insertKey(context.service.db, { expires_at: past })).key,
      revoked: (await insertKey(context.service.db, { revoked_at: past })).key,
      both: (await insertKey(context.service.db, { expires_at: past, revoked_at: past, plan: 'free' })).key,
    };
    for (const attempt of ['first', 'second']) {
      const responses: Record<string, string> = {};
      for (const [kind, token] of Object.entries(keys)) {
        const text = requestText('GET', '/v1/store/orders', { key: token });
        responses[kind] = withoutWhatVaries((await exchange(context.service.port, text, { until: 1 })).text);
      }
      const { unknown } = responses;
      expect({ attempt, ...responses }).toEqual({
        attempt,
        unknown,
        expired: unknown,
        revoked: unknown,
        both: unknown,
      });
      expect(unknown).toContain('"invalid_api_key"');
    }
  });

  /** The response without the headers that differ between requests: date, request id and limits. */
  function withoutWhatVaries(text: string): string {
    return text.replace(/^(?:date|x-request-id|x-ratelimit-[a-z]+|ratelimit): .*\r\n/gim, '');
  }
});

describe('a valid key is admitted', () => {
  it.each([['AUTHORIZATION: BEARER    KEY'], ['Authorization:Bearer KEY   ']])('in any form: %s', async (line) => {
    const response = await ask([line.replace('KEY', context.key)], 'HEAD');
    expect(response.status).toBe(200);
    expect(response.headers.has('www-authenticate')).toBe(false);
  });

  it('until the last millisecond before it expires', async () => {
    const expires_at = new Date(context.service.clock.now() + 5_000);
    const { key } = await insertKey(context.service.db, { expires_at });
    expect(await statusOf(key)).toBe(200);
    context.service.clock.advance(4_999);
    expect(await statusOf(key)).toBe(200);
    context.service.clock.advance(1);
    expect(await statusOf(key)).toBe(401);
  });

  it('unless it expires in a year that JavaScript cannot represent', async () => {
    const { id, key } = await insertKey(context.service.db);
    await context.service.db.query("UPDATE api_keys SET expires_at = '294276-12-31T23:59:59Z' WHERE id = $1", [id]);
    expect(await statusOf(key)).toBe(401);
  });

  it('while its address is banned for guessing keys', async () => {
    const { db, baseUrl, clock } = context.service;
    const [used, unused] = [await insertKey(db), await insertKey(db)];
    expect(await statusOf(used.key)).toBe(200);
    const codes: string[] = [];
    while (codes.at(-1) !== 'address_banned' && codes.length < 300) {
      if (codes.at(-1) === 'rate_limit_exceeded') {
        // Later than what may have been in flight at the first rejection.
        clock.advance(200);
      }
      codes.push((await errorOf(await listOrders(baseUrl, generateKey()))).code);
    }
    expect(codes.filter((code) => code === 'invalid_api_key')).toHaveLength(60);
    expect(codes.at(-1)).toBe('address_banned');
    expect((await cancelOrder(baseUrl, await insertOrder(db), used.key)).status).toBe(204);
    // Not in the cache of this process.
    expect((await cancelOrder(baseUrl, await insertOrder(db), unused.key)).status).toBe(204);
  });
});
