import pg from 'pg';
import { UsageRecorder } from '../../src/usage/usage-recorder.js';
import { call } from '../helpers/api.js';
import { insertKey } from '../helpers/builders.js';
import { useTestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

const context = useTestService();

async function use(key: string): Promise<void> {
  await call(context.service.baseUrl, 'HEAD', '/store/orders', key);
}

const flush = (): Promise<void> => context.service.app.get(UsageRecorder).flush();

async function lastUsedAt(id: string): Promise<Date | null | undefined> {
  const { rows } = await context.service.db.query<{ last_used_at: Date | null }>(
    'SELECT last_used_at FROM api_keys WHERE id = $1',
    [id],
  );
  return rows[0]?.last_used_at;
}

describe('the last use of a key', () => {
  it('is recorded for the key that was used and for no other', async () => {
    const [used, unused] = [await insertKey(context.service.db), await insertKey(context.service.db)];
    const before = Date.now();
    await use(used.key);
    await flush();
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
    await flush();
    expect((await lastUsedAt(id))?.getTime() !== before?.getTime()).toBe(recorded);
  });

  it('is not recorded for a key that is rejected', async () => {
    const { id, key } = await insertKey(context.service.db, { revoked_at: new Date() });
    await use(key);
    await flush();
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
    await flush();
    expect(await lastUsedAt(id)).toBeInstanceOf(Date);
    await context.service.db.query("SELECT pg_notify('api_key_changed', 'end')");
    await waitFor(() => received.includes('end'), 'the last notification arrives');
    await listener.end();
    expect(received).toEqual(['end']);
  });
});
