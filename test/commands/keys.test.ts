import { call } from '../helpers/api.js';
import { insertKey, type KeyRow } from '../helpers/builders.js';
import { openTransaction, untilLockWaits } from '../helpers/lock-waits.js';
import { ManualClock } from '../helpers/manual-clock.js';
import { type CommandResult, failure, petstore } from '../helpers/petstore.js';
import { startTestService, type TestService } from '../helpers/test-service.js';
import { waitFor } from '../helpers/wait-for.js';

const KEY = /^pst_[0-9A-Za-z]{43}$/;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

// The clock of the service stands still, so that no cache entry expires: it learns of changes by notifications only.
let service: TestService;
beforeAll(async () => {
  service = await startTestService({
    clock: new ManualClock(Date.now()),
    environment: { API_KEY_CACHE_SECONDS: '3600' },
  });
});
afterAll(() => service.stop());

const keys = (...args: string[]): Promise<CommandResult> => petstore(['keys', ...args], { DATABASE_URL: service.url });

/** Runs a command that must succeed; its output as one JSON document. */
async function keysJson(...args: string[]): Promise<Record<string, unknown>> {
  const { exitCode, stdout, stderr } = await keys(...args, '--json');
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  expect(stdout.endsWith('\n')).toBe(true);
  return JSON.parse(stdout) as Record<string, unknown>;
}

async function statusOf(key: string): Promise<number> {
  return (await call(service.baseUrl, 'HEAD', '/store/orders', key)).status;
}

async function rowOf(id: unknown): Promise<(KeyRow & { key_prefix: string }) | undefined> {
  const { rows } = await service.db.query<KeyRow & { key_prefix: string }>('SELECT * FROM api_keys WHERE id = $1', [
    id,
  ]);
  return rows[0];
}

describe('petstore keys issue', () => {
  it('issues a key that a running service accepts, and prints id, key and expiry with --json', async () => {
    const issued = await keysJson('issue', '--name', 'Partner A', '--plan', 'free');
    expect(issued).toEqual({
      id: expect.stringMatching(UUID) as unknown,
      key: expect.stringMatching(KEY) as unknown,
      expiresAt: null,
    });
    const key = String(issued.key);
    expect(await statusOf(key)).toBe(200);
    expect(await rowOf(issued.id)).toMatchObject({
      name: 'Partner A',
      plan: 'free',
      key_prefix: key.slice(0, 10),
      requests_per_minute: null,
      expires_at: null,
      revoked_at: null,
    });
    // Nothing is stored that the key could be read from.
    expect(JSON.stringify(await rowOf(issued.id))).not.toContain(key.slice(10, 20));
  });

  it('prints id and key as text without --json, and accepts an expiry time', async () => {
    const { exitCode, stdout, stderr } = await keys(
      ...['issue', '--name', ' B ', '--plan', 'pro', '--expires-at', '2099-12-31T23:59:59+01:00'],
    );
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    const [, id, key] = /^id {7}(\S+)\nkey {6}(\S+)\nexpires {2}2099-12-31T22:59:59\.000Z\n/.exec(stdout) ?? [];
    expect(key).toMatch(KEY);
    expect(stdout).toContain('Store the key now: it is not shown again.');
    expect(await rowOf(id)).toMatchObject({ name: 'B', plan: 'pro', expires_at: new Date('2099-12-31T22:59:59Z') });
  });

  it('accepts the quotas of an enterprise key', async () => {
    const { id } = await keysJson(
      ...['issue', '--name', 'C', '--plan', 'enterprise', '--per-minute', '7', '--per-day', '2147483647'],
    );
    expect(await rowOf(id)).toMatchObject({ requests_per_minute: 7, requests_per_day: 2_147_483_647 });
  });
});

it('petstore keys list lists all keys, the newest first, as a table and as JSON, without any key or digest', async () => {
  await service.db.query('DELETE FROM api_keys');
  const past = new Date('2026-01-02T03:04:05.000Z');
  const made = [
    await insertKey(service.db, { name: 'active', plan: 'business' }),
    await insertKey(service.db, { name: 'expired', plan: 'pro', expires_at: past }),
    await insertKey(service.db, {
      name: 'revoked',
      requests_per_minute: 5_000,
      requests_per_day: 70_000,
      revoked_at: past,
    }),
  ];
  // Made within one millisecond, they would have no order.
  for (const [age, { id }] of made.toReversed().entries()) {
    await service.db.query('UPDATE api_keys SET created_at = now() - make_interval(secs => $1) WHERE id = $2', [
      age,
      id,
    ]);
  }
  await service.db.query("UPDATE api_keys SET last_used_at = '2026-05-06T07:08:09Z' WHERE name = 'active'");
  const [table, list] = await Promise.all([keys('list'), keys('list', '--json')]);
  expect([table.exitCode, list.exitCode, table.stderr, list.stderr]).toEqual([0, 0, '', '']);
  const [header, ...lines] = table.stdout.trimEnd().split('\n');
  expect(header).toMatch(/^ID +PLAN +STATE +LEFT TODAY +LAST USED +EXPIRES +NAME$/);
  const idsOf = made.map(({ id }) => id).reverse();
  expect(lines.map((line) => line.split(/ {2,}/))).toEqual([
    [idsOf[0], 'enterprise', 'revoked', '-', 'never', 'never', 'revoked'],
    [idsOf[1], 'pro', 'expired', '-', 'never', '2026-01-02', 'expired'],
    [idsOf[2], 'business', 'active', '-', '2026-05-06', 'never', 'active'],
  ]);
  const records = JSON.parse(list.stdout) as Record<string, unknown>[];
  expect(records.map(({ id }) => id)).toEqual(idsOf);
  expect(records[0]).toEqual({
    id: made[2]?.id,
    name: 'revoked',
    keyPrefix: made[2]?.key.slice(0, 10),
    plan: 'enterprise',
    state: 'revoked',
    requestsPerMinute: 5_000,
    requestsPerDay: 70_000,
    requestsLeftToday: null,
    banned: null,
    bannedUntil: null,
    createdAt: expect.stringMatching(/^\d{4}-\d{2}-\d{2}T[\d:.]+Z$/) as unknown,
    expiresAt: null,
    revokedAt: '2026-01-02T03:04:05.000Z',
    successorId: null,
    lastUsedAt: null,
  });
  const shown = await keysJson('show', made[2]!.id);
  expect(shown).toEqual(records[0]);
  const text = (await keys('show', made[2]!.id)).stdout;
  expect(text).toContain(`\nname               revoked\nkeyPrefix          ${made[2]!.key.slice(0, 10)}\n`);
  expect(text).toContain('\nrevokedAt          2026-01-02T03:04:05.000Z\n');
  expect(text).not.toContain('null');
  for (const { key } of made) {
    expect(table.stdout + list.stdout).not.toContain(key.slice(0, 20));
  }
  expect(table.stdout + list.stdout).not.toMatch(/[0-9a-f]{64}/);
});

// How running services learn of changes is tested in test/keys.
it('petstore keys revoke revokes one key and reports whether it was valid', async () => {
  const [{ id }, other] = [await insertKey(service.db), await insertKey(service.db)];
  expect(await keysJson('revoke', id)).toEqual({ id, revoked: true, successorId: null });
  const revokedAt = (await rowOf(id))?.revoked_at;
  expect(revokedAt).toBeInstanceOf(Date);
  expect(await rowOf(other.id)).toMatchObject({ revoked_at: null });
  const [again, forPeople] = await Promise.all([keysJson('revoke', id), keys('revoke', id.toUpperCase())]);
  expect(again).toEqual({ id, revoked: false, successorId: null });
  expect(forPeople).toEqual({ exitCode: 0, stdout: `The key ${id} was revoked already.\n`, stderr: '' });
  expect((await rowOf(id))?.revoked_at).toEqual(revokedAt);
});

describe('petstore keys rotate', () => {
  it('issues a successor with the same name, plan, quotas and expiry; the old key expires after a day', async () => {
    const expiry = new Date('2099-01-01T00:00:00Z');
    const { id, key } = await insertKey(service.db, {
      name: 'Partner E',
      requests_per_minute: 123,
      requests_per_day: 4_567,
      expires_at: expiry,
    });
    expect(await statusOf(key)).toBe(200);
    const before = Date.now();
    const successor = await keysJson('rotate', id);
    const after = Date.now();
    expect(successor).toEqual({
      id: expect.stringMatching(UUID) as unknown,
      key: expect.stringMatching(KEY) as unknown,
      expiresAt: expiry.toISOString(),
    });
    expect(successor.id).not.toBe(id);
    expect(await rowOf(successor.id)).toMatchObject({
      name: 'Partner E',
      plan: 'enterprise',
      requests_per_minute: 123,
      requests_per_day: 4_567,
      expires_at: expiry,
      revoked_at: null,
    });
    const oldExpiry = (await rowOf(id))?.expires_at?.getTime() ?? 0;
    expect(oldExpiry).toBeGreaterThanOrEqual(before + 86_400_000);
    expect(oldExpiry).toBeLessThanOrEqual(after + 86_400_000);
    expect([await statusOf(key), await statusOf(String(successor.key))]).toEqual([200, 200]);
  });

  it('expires the old key at once with --overlap 0, and prints the new one as text without --json', async () => {
    const { id, key } = await insertKey(service.db);
    expect(await statusOf(key)).toBe(200);
    const { stdout } = await keys('rotate', id, '--overlap', '0');
    service.clock.set(Date.now());
    await waitFor(async () => (await statusOf(key)) === 401, 'the old key is rejected');
    expect(await statusOf(/^key +(\S+)$/m.exec(stdout)?.[1] ?? '')).toBe(200);
  });

  it('does not prolong the old key, whatever the expiry of the successor', async () => {
    const soon = new Date(Date.now() + 3_600_000);
    const { id } = await insertKey(service.db, { expires_at: soon });
    const successor = await keysJson('rotate', id, '--overlap', '7d', '--expires-at', '2099-01-02T03:04:05Z');
    expect((await rowOf(id))?.expires_at).toEqual(soon);
    expect((await rowOf(successor.id))?.expires_at).toEqual(new Date('2099-01-02T03:04:05Z'));
  });
});

describe('petstore keys rotate issues no successor', () => {
  it('of a key that is rotated already, and names the successor, which keeps the original expiry', async () => {
    const { id } = await insertKey(service.db);
    const successor = await keysJson('rotate', id, '--overlap', '1h');
    const before = await rowOf(id);
    const message = `The key ${id} is rotated already; rotate its successor ${String(successor.id)} instead.`;
    expect(await keys('rotate', id)).toEqual(failure(message));
    expect(await rowOf(id)).toEqual(before);
    expect(await keysJson('show', id)).toMatchObject({ successorId: successor.id });
    expect(await keysJson('rotate', String(successor.id))).toMatchObject({ expiresAt: null });
    expect((await keys('revoke', id)).stdout).toBe(
      `The key ${id} is revoked. Its successor ${String(successor.id)} is not affected.\n`,
    );
  });

  it('of a key that another transaction revokes at the same time', async () => {
    const { id } = await insertKey(service.db, { name: 'leaked' });
    const revocation = 'UPDATE api_keys SET revoked_at = now() WHERE id = $1';
    const endTransaction = await openTransaction(service.db, revocation, [id]);
    const rotating = keys('rotate', id);
    await untilLockWaits(service.db);
    await endTransaction('COMMIT');
    expect(await rotating).toEqual(failure(`The key ${id} is revoked; issue a new one instead.`));
    expect((await service.db.query("SELECT FROM api_keys WHERE name = 'leaked'")).rowCount).toBe(1);
  });
});

it('petstore keys set-plan changes the quotas to custom ones and back', async () => {
  const { id } = await insertKey(service.db, { plan: 'free' });
  const record = await keysJson('set-plan', id, '--plan', 'enterprise', '--per-minute', '8', '--per-day', '90');
  expect(record).toMatchObject({ id, plan: 'enterprise', requestsPerMinute: 8, requestsPerDay: 90 });
  expect(await rowOf(id)).toMatchObject({ plan: 'enterprise', requests_per_minute: 8, requests_per_day: 90 });
  const result = await keys('set-plan', id, '--plan', 'business');
  expect(result).toEqual({ exitCode: 0, stdout: `The key ${id} has the plan business.\n`, stderr: '' });
  expect(await rowOf(id)).toMatchObject({ plan: 'business', requests_per_minute: null, requests_per_day: null });
});
