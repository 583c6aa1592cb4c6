import { generateKey } from '../../src/api-keys/api-keys.admin.js';
import { call, errorOf, listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import { useTestService } from '../helpers/test-service.js';
import { exchange, requestText, type WireResponse } from '../helpers/wire.js';

const REALM = 'Bearer realm="petstore"';
const INVALID = `${REALM}, error="invalid_token"`;

describe('a key', () => {
  const context = useTestService();

  async function ask(headers: readonly string[], method = 'GET'): Promise<WireResponse | undefined> {
    const text = requestText(method, '/v1/store/orders', { headers });
    return (await exchange(context.service.port, text, { until: 1, methods: [method] })).responses[0];
  }

  // `readBearer` is tested with every other form.
  test.each([
    ['no header', []],
    ['the scheme and spaces', ['Authorization: Bearer   ']],
    ['the key in another header', ['X-Api-Key: KEY', 'Proxy-Authorization: Bearer KEY', 'Cookie: key=KEY']],
  ])('that is missing gets 401 without an RFC 6750 error code: %s', async (_what, headers) => {
    const response = await ask(headers.map((line) => line.replace('KEY', context.key)));
    expectErrorResponse(response, 401, 'missing_api_key');
    expectLimits(response, 'limits');
    expect(response?.headers.get('www-authenticate')).toEqual([REALM]);
  });

  it('is not read from the URL', async () => {
    const text = requestText('GET', `/v1/store/orders?access_token=${context.key}&api_key=${context.key}`);
    const { responses } = await exchange(context.service.port, text, { until: 1 });
    expectErrorResponse(responses[0], 401, 'missing_api_key');
  });

  test.each([
    ['two tokens', ['Authorization: Bearer KEY KEY']],
    ['two headers', ['Authorization: Bearer KEY', 'Authorization: Bearer KEY']],
    ['the key and a no-break space', ['Authorization: Bearer KEY\xa0']],
    ['a key with another last character', ['Authorization: Bearer CHANGED']],
    ['a well-formed key that does not exist', ['Authorization: Bearer UNKNOWN']],
  ])('that is invalid gets 401 with the error code of RFC 6750: %s', async (_what, headers) => {
    const changed = context.key.slice(0, -1) + (context.key.endsWith('a') ? 'b' : 'a');
    const response = await ask(
      headers.map((line) =>
        line.replaceAll('KEY', context.key).replace('CHANGED', changed).replace('UNKNOWN', generateKey()),
      ),
    );
    expectErrorResponse(response, 401, 'invalid_api_key');
    expectLimits(response, 'limits');
    expect(response?.headers.get('www-authenticate')).toEqual([INVALID]);
  });

  test.each([['AUTHORIZATION: BEARER    KEY'], ['Authorization:Bearer KEY   ']])(
    'that is valid is admitted: %s',
    async (line) => {
      const response = await ask([line.replace('KEY', context.key)], 'HEAD');
      expect(response?.status).toBe(200);
      expect(response?.headers.has('www-authenticate')).toBe(false);
    },
  );

  it('that is unknown, expired or revoked gets the same response byte for byte, cached or not', async () => {
    const past = new Date(context.service.clock.now() - 1);
    const keys = {
      unknown: generateKey(),
      expired: (await insertKey(context.service.db, { expires_at: past })).key,
      revoked: (await insertKey(context.service.db, { revoked_at: past })).key,
      both: (await insertKey(context.service.db, { expires_at: past, revoked_at: past, plan: 'free' })).key,
    };
    for (const attempt of ['first', 'cached']) {
      const responses: Record<string, string> = {};
      for (const [kind, token] of Object.entries(keys)) {
        context.service.clock.advance(1_000);
        const text = requestText('GET', '/v1/store/orders', { key: token });
        responses[kind] = withoutWhatVaries((await exchange(context.service.port, text, { until: 1 })).text);
      }
      expect({ attempt, ...responses }).toEqual({
        attempt,
        unknown: responses.unknown,
        expired: responses.unknown,
        revoked: responses.unknown,
        both: responses.unknown,
      });
      expect(responses.unknown).toContain('"invalid_api_key"');
    }
  });

  it('that expires is valid until its last millisecond', async () => {
    const { key: expiring } = await insertKey(context.service.db, {
      expires_at: new Date(context.service.clock.now() + 5_000),
    });
    expect((await call(context.service.baseUrl, 'HEAD', '/store/orders', expiring)).status).toBe(200);
    context.service.clock.advance(4_999);
    expect((await call(context.service.baseUrl, 'HEAD', '/store/orders', expiring)).status).toBe(200);
    context.service.clock.advance(1);
    const response = await listOrders(context.service.baseUrl, expiring);
    expect(response.status).toBe(401);
    expect((await errorOf(response)).code).toBe('invalid_api_key');
  });
});

/** The response without the headers that differ between requests: date, request id and limits. */
function withoutWhatVaries(text: string): string {
  return text.replace(/^(?:date|x-request-id|x-ratelimit-[a-z]+|ratelimit): .*\r\n/gim, '');
}
