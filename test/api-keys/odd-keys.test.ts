import { call, errorOf } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { failure, petstore } from '../helpers/petstore.js';
import { useTestService } from '../helpers/test-service.js';

const context = useTestService();

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

it('a key with a plan that this version does not know gets 500, and others are not affected', async () => {
  const { service } = context;
  await service.db.query("ALTER TYPE plan ADD VALUE 'gold'");
  const { id, key } = await insertKey(service.db, { plan: 'free' });
  await service.db.query("UPDATE api_keys SET plan = 'gold' WHERE id = $1", [id]);
  expect((await errorOf(await call(service.baseUrl, 'GET', '/store/orders', key))).code).toBe('internal_error');
  expect((await call(service.baseUrl, 'HEAD', '/store/orders', context.key)).status).toBe(200);
});
