import pg from 'pg';
import { generateKey } from '../../src/api-keys/api-keys.admin.js';
import { call, errorOf, listOrders } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { expectErrorResponse, expectLimits } from '../helpers/expect-error-response.js';
import { lockTable, untilLockWaits } from '../helpers/lock-waits.js';
import { failure, petstore } from '../helpers/petstore.js';
import { ServiceMetrics } from '../helpers/service-metrics.js';
import { useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';
import { type WireResponse, exchange, requestText } from '../helpers/wire.js';

const context = useTestService();

describe('a key', () => {
  const REALM = 'Bearer realm="petstore"';
  const INVALID = `${REALM}, error="invalid_token"`;

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

  it('that is revoked after it was used is rejected within a second, and another key is not', async () => {
    const { service } = context;
    const [revoked, other] = [await insertKey(service.db), await insertKey(service.db)];
    const statusOf = async (key: string): Promise<number> =>
      (await call(service.baseUrl, 'HEAD', '/store/orders', key)).status;
    // While PostgreSQL notifies the service of no changes, it looks up every key.
    const isNotified = async (): Promise<boolean> =>
      (await ServiceMetrics.of(service.app)).sum('petstore_listener_connected') === 1;
    await waitFor(isNotified, 'the service is notified of changes');
    expect([await statusOf(revoked.key), await statusOf(other.key)]).toEqual([200, 200]);
    await service.db.query('UPDATE api_keys SET revoked_at = now() WHERE id = $1', [revoked.id]);
    await waitFor(async () => (await statusOf(revoked.key)) === 401, 'the key is rejected', { withinMs: 1_000 });
    expect(await statusOf(other.key)).toBe(200);
  });

  /** The response without the headers that differ between requests: date, request id and limits. */
  function withoutWhatVaries(text: string): string {
    return text.replace(/^(?:date|x-request-id|x-ratelimit-[a-z]+|ratelimit): .*\r\n/gim, '');
  }
});

describe('the last use of a key', () => {
  async function use(key: string): Promise<void> {
    await call(context.service.baseUrl, 'HEAD', '/store/orders', key);
  }

  async function lastUsedAt(id: string): Promise<Date | null | undefined> {
    const { rows } = await context.service.db.query<{ last_used_at: Date | null }>(
      'SELECT last_used_at FROM api_keys WHERE id = $1',
      [id],
    );
    return rows[0]?.last_used_at;
  }

  it('is recorded for the key that was used and for no other', async () => {
    const [used, unused] = [await insertKey(context.service.db), await insertKey(context.service.db)];
    const before = Date.now();
    await use(used.key);
    await context.service.flushUsage();
    expect((await lastUsedAt(used.id))?.getTime()).toBeGreaterThanOrEqual(before - 1);
    expect((await lastUsedAt(used.id))?.getTime()).toBeLessThanOrEqual(Date.now() + 1);
    expect(await lastUsedAt(unused.id)).toBeNull();
  });

  it.each([
    ['50 seconds', false],
    ['61 seconds', true],
  ])('is recorded at most once a minute (%s after the last record)', async (age, recorded) => {
    const { id, key } = await insertKey(context.service.db);
    await context.service.db.query('UPDATE api_keys SET last_used_at = now() - $1::interval WHERE id = $2', [age, id]);
    const before = await lastUsedAt(id);
    await use(key);
    await context.service.flushUsage();
    expect((await lastUsedAt(id))?.getTime() !== before?.getTime()).toBe(recorded);
  });

  it('is not recorded for a key that is rejected', async () => {
    const { id, key } = await insertKey(context.service.db, { revoked_at: new Date() });
    await use(key);
    await context.service.flushUsage();
    expect(await lastUsedAt(id)).toBeNull();
  });

  it('sends no notification, unlike other changes of a key', async () => {
    const { id, key } = await insertKey(context.service.db);
    const received: (string | undefined)[] = [];
    const listener = new pg.Client(context.service.url);
    await listener.connect();
    listener.on('notification', ({ payload }) => received.push(payload));
    await listener.query('LISTEN api_key_changed');
    await use(key);
    await context.service.flushUsage();
    expect(await lastUsedAt(id)).toBeInstanceOf(Date);
    await context.service.db.query("SELECT pg_notify('api_key_changed', 'end')");
    await waitFor(() => received.includes('end'), 'the last notification arrives');
    await listener.end();
    expect(received).toEqual(['end']);
  });
});

describe('odd keys', () => {
  describe('a key with an expiry that JavaScript cannot represent is expired for the service and for the commands', () => {
    beforeAll(() => context.service.db.query('ALTER TABLE api_keys DROP CONSTRAINT api_keys_expires_at_finite'));

    it.each(['10000-01-01T00:00:00Z', '294276-12-31T23:59:59Z', '0044-03-15 12:00:00+00 BC', 'infinity', '-infinity'])(
      '%s',
      async (expiresAt) => {
        const { service } = context;
        const { id, key } = await insertKey(service.db);
        expect((await call(service.baseUrl, 'HEAD', '/store/orders', key)).status).toBe(200);
        await service.db.query('UPDATE api_keys SET expires_at = $2::text::timestamptz WHERE id = $1', [id, expiresAt]);
        service.clock.advance(60_000);
        const rejected = await call(service.baseUrl, 'GET', '/store/orders', key);
        expect([rejected.status, (await errorOf(rejected)).code]).toEqual([401, 'invalid_api_key']);

        const keys = (...args: string[]): ReturnType<typeof petstore> =>
          petstore(['keys', ...args], { DATABASE_URL: service.url });
        const shown = await keys('show', id);
        expect(shown).toMatchObject({ exitCode: 0, stderr: '' });
        expect(shown.stdout).toMatch(/^state +expired$[^]*^expiresAt +invalid$/m);
        expect((await keys('list')).stdout).toMatch(new RegExp(`^${id} +enterprise +expired .* invalid +test$`, 'm'));
        expect((await keys('usage', id)).stdout).toMatch(/^state +expired$/m);
        expect(await keys('rotate', id)).toEqual(failure(`The key ${id} is expired; issue a new one instead.`));
      },
    );
  });

  it('a key with a plan that this version does not know gets 500, and others in its look-up are not affected', async () => {
    const { service } = context;
    await service.db.query("ALTER TYPE plan ADD VALUE 'gold'");
    const { id, key } = await insertKey(service.db, { plan: 'free' });
    await service.db.query("UPDATE api_keys SET plan = 'gold' WHERE id = $1", [id]);
    const others = await Promise.all(Array.from({ length: 6 }, () => insertKey(service.db)));
    const head = async (of: string): Promise<number> =>
      (await call(service.baseUrl, 'HEAD', '/store/orders', of)).status;
    const before = await lookUps();
    const unlock = await lockTable(service.db, 'api_keys');
    // While two look-ups wait, those that arrive share the next one.
    const statuses = [head(others[0]!.key)];
    await untilLockWaits(service.db, 1, 'petstore-main');
    statuses.push(head(others[1]!.key));
    await untilLockWaits(service.db, 2, 'petstore-main');
    statuses.push(...[key, ...others.slice(2).map((other) => other.key)].map(head));
    await waitFor(async () => (await lookUps()) === before + 7, 'all look-ups have arrived');
    await unlock();
    expect(await Promise.all(statuses)).toEqual([200, 200, 500, 200, 200, 200, 200]);
  });
});

async function lookUps(): Promise<number> {
  return (await ServiceMetrics.of(context.service.app)).sum('petstore_api_key_lookups_total', 'database');
}
