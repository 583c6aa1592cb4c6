import { insertKey, type KeyRow } from '../helpers/builders.js';
import { type CommandResult, petstore } from '../helpers/petstore.js';
import { useTestDatabase } from '../helpers/test-database.js';

const ANONYMOUS_ID = '00000000-0000-0000-0000-000000000000';
const LONG = 'At the limit, "quoted" and with a name that is far too long for a table';
const DELETED_ID = 'dddddddd-0000-4000-8000-000000000000';

const database = useTestDatabase();
let ids: Readonly<Record<'near' | 'bursts' | 'idle' | 'full' | 'big' | 'revoked' | 'forgotten', string>>;
beforeAll(async () => {
  const insert = async (overrides: Partial<KeyRow>): Promise<string> => (await insertKey(database.db, overrides)).id;
  const past = new Date('2026-01-01T00:00:00Z');
  ids = {
    near: await insert({ name: 'Near its limit', plan: 'pro' }),
    bursts: await insert({ name: 'Bursts', plan: 'free' }),
    idle: await insert({ name: 'Idle', plan: 'business' }),
    full: await insert({ name: LONG, plan: 'free' }),
    big: await insert({ name: 'Big', plan: 'enterprise', requests_per_minute: 9, requests_per_day: 1_000_000 }),
    revoked: await insert({ name: 'Revoked with usage', plan: 'free', revoked_at: past }),
    forgotten: await insert({ name: 'Revoked without usage', plan: 'free', revoked_at: past }),
  };
  // 20 days: the highest is above the 95th percentile.
  await add(ids.near, 0, 20, 8_700);
  await add(ids.near, 20, 21, 9_999);
  await add(ids.bursts, 0, 3, 40, { rejected: 7, banned: 2 });
  await add(ids.full, 0, 10, 1_000, {
    rejected: 30,
    banned: 12_345_678,
    lists: 5,
    cancels: 1_234,
    list_bytes: 987_654_321,
  });
  await add(ids.full, 10, 11, 12, { rejected: 1 });
  await add(ids.big, 5, 6, 150_000);
  await add(ids.revoked, 1, 2, 3);
  await add(DELETED_ID, 0, 1, 17);
  await add(ANONYMOUS_ID, 0, 2, 100, { rejected: 4 });
});

/** Adds the usage of the days from `first` to before `end` days ago. */
async function add(
  id: string,
  first: number,
  end: number,
  admitted: number,
  { rejected = 0, banned = 0, lists = 0, cancels = 0, list_bytes = 0 } = {},
): Promise<void> {
  await database.db.query(
    `INSERT INTO api_key_usage (key_id, day, admitted, rejected, banned, lists, cancels, list_bytes)
     SELECT $1, CURRENT_DATE - age, $4, $5, $6, $7, $8, $9 FROM generate_series($2::int, $3::int - 1) AS age`,
    [id, first, end, admitted, rejected, banned, lists, cancels, list_bytes],
  );
}

const usage = (...args: string[]): Promise<CommandResult> =>
  petstore(['keys', 'usage', ...args], { DATABASE_URL: database.url });

async function textOf(...args: string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await usage(...args);
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  return stdout;
}

async function jsonOf<T>(...args: string[]): Promise<T> {
  return JSON.parse(await textOf(...args, '--json')) as T;
}

interface Key {
  readonly id: string;
  readonly name: string | null;
}

const daysAgo = (days: number): string => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);

describe('petstore keys usage', () => {
  it('lists the keys by the share of their daily limit, with the plan that would fit', async () => {
    const lines = (await textOf()).split('\n');
    expect(lines[0]).toBe(`Usage from ${daysAgo(29)} to ${daysAgo(0)} (UTC)`);
    const rows = lines.slice(2, 11).map((line) => line.trim().split(/ {2,}/));
    expect(rows).toEqual([
      ['ID', 'PLAN', 'SHARE', 'P95/DAY', 'REJECTED', 'BANNED', 'FITS', 'NAME'],
      [ids.full, 'free', '103 %', '1,030', '301', '123,456,780', 'pro+', LONG],
      [ids.near, 'pro', '87 %', '8,700', '0', '0', 'Near its limit'],
      [ids.big, 'enterprise', '15 %', '150,000', '0', '0', 'Big'],
      [ids.bursts, 'free', '4 %', '47', '21', '6', 'pro', 'Bursts'],
      [ids.revoked, 'free', '0 %', '3', '0', '0', '(revoked)', 'Revoked with usage'],
      [ids.idle, 'business', '0 %', '-', '0', '0', 'Idle'],
      [DELETED_ID, '-', '-', '17', '0', '0', '(deleted)'],
      ['anonymous', '-', '-', '104', '8', '0', '(anonymous)'],
    ]);
  });

  it('prints all figures as JSON', async () => {
    const report = await jsonOf<{ from: string; to: string; keys: Key[]; anonymous: Key }>();
    expect(report).toMatchObject({ from: daysAgo(29), to: daysAgo(0) });
    expect(report.keys.find(({ id }) => id === ids.full)).toEqual({
      id: ids.full,
      name: LONG,
      plan: 'free',
      state: 'active',
      requestsPerMinute: 60,
      requestsPerDay: 1_000,
      admitted: 10_012,
      rejected: 301,
      banned: 123_456_780,
      lists: 50,
      cancels: 12_340,
      listBytes: 9_876_543_210,
      p95PerDay: 1_030,
      p95Denied: 12_345_708,
      share: 1.03,
      fits: 'pro',
      orHigher: true,
    });
    expect(report.keys.find(({ id }) => id === DELETED_ID)).toMatchObject({
      state: 'deleted',
      name: null,
      share: null,
    });
    expect(report.keys.map(({ id }) => id)).not.toContain(ids.forgotten);
    expect(report.anonymous).toMatchObject({ id: ANONYMOUS_ID, state: 'anonymous', admitted: 200, rejected: 8 });
  });

  it('marks expired keys', async () => {
    const { id } = await insertKey(database.db, { plan: 'pro', expires_at: new Date('2026-01-01T00:00:00Z') });
    await add(id, 0, 1, 9_999);
    expect(await textOf()).toMatch(new RegExp(`\n${id} .* 99 %.*  \\(expired\\) `));
    const text = await textOf(id);
    await database.db.query('DELETE FROM api_key_usage WHERE key_id = $1', [id]);
    expect(text).toMatch(/^.* \(expired\)\n/);
    expect(text).toContain(
      'p95 of daily requests, admitted and rejected: 9,999 of 10,000 (99 %)\nNo request was rejected.\n',
    );
  });

  it('counts the days back from --until', async () => {
    const report = await jsonOf<{ from: string; to: string; keys: Key[] }>('--days', '3', '--until', daysAgo(19));
    expect(report).toMatchObject({ from: daysAgo(21), to: daysAgo(19) });
    // The days 20 and 19; the percentile is that of the period, not that of today.
    expect(report.keys.find(({ id }) => id === ids.near)).toMatchObject({ admitted: 18_699, p95PerDay: 9_999 });
    expect(await textOf(DELETED_ID, '--until', daysAgo(0))).toContain(daysAgo(0));
    const { days } = await jsonOf<{ days: unknown[] }>(ids.near, '--days', '2', '--until', daysAgo(19));
    expect(days).toEqual([
      expect.objectContaining({ day: daysAgo(20), admitted: 9_999 }),
      expect.objectContaining({ day: daysAgo(19), admitted: 8_700 }),
    ]);
  });

  it('judges a plan by the last 30 days of the period', async () => {
    const { id } = await insertKey(database.db, { plan: 'free' });
    await add(id, 33, 35, 500);
    await add(id, 35, 40, 999);
    const { keys } = await jsonOf<{ keys: Key[] }>('--days', '60', '--until', daysAgo(5));
    await database.db.query('DELETE FROM api_key_usage WHERE key_id = $1', [id]);
    expect(keys.find((key) => key.id === id)).toMatchObject({ admitted: 2 * 500 + 5 * 999, p95PerDay: 500 });
  });

  it('counts only the days of the period', async () => {
    const { keys } = await jsonOf<{ keys: Key[] }>('--days', '1');
    expect(keys.find(({ id }) => id === ids.near)).toMatchObject({ admitted: 8_700 });
    expect(keys.find(({ id }) => id === ids.big)).toMatchObject({ admitted: 0, p95PerDay: null });
    expect(keys.map(({ id }) => id)).not.toContain(ids.revoked);
  });
});

describe('petstore keys usage ID', () => {
  it('shows each day, and why requests were rejected', async () => {
    const text = await textOf(ids.full.slice(0, 8), '--days', '12');
    const lines = text.split('\n');
    expect(lines.slice(1, 4)).toEqual([
      ids.full,
      'free: 60 requests per minute, 1,000 per day',
      `Usage from ${daysAgo(11)} to ${daysAgo(0)} (UTC)`,
    ]);
    expect(lines[6]).toBe(`${daysAgo(10)}        12         1           0      0        0            0`);
    expect(lines.at(-8)).toBe(`${daysAgo(0)}     1,000        30  12,345,678      5    1,234  987,654,321`);
    expect(lines.slice(-7)).toEqual([
      '',
      'p95 of daily requests, admitted and rejected: 1,030 of 1,000 (103 %)',
      'The key needs the plan pro or a higher one.',
      'Rejected: 301 requests over a limit, 123,456,780 during a ban',
      '- days on which the limit of 1,000 per day was reached: 10',
      '- days on which only the limit of 60 per minute was exceeded, by up to 1 a day: 1',
      '',
    ]);
  });

  it('says that the plan fits', async () => {
    expect(await textOf(ids.near)).toContain(
      '\np95 of daily requests, admitted and rejected: 8,700 of 10,000 (87 %)\nThe plan fits.\nNo request was rejected.\n',
    );
  });

  const PRO_OR_HIGHER = 'The key needs the plan pro or a higher one.';
  it.each<[string, Partial<KeyRow>, [admitted: number, rejected: number, banned: number], string]>([
    ['a smaller plan, if a day fits in its minute', { plan: 'business' }, [60, 0, 0], 'The plan free would fit.'],
    ['no smaller plan, if a day may have been a minute', { plan: 'business' }, [500, 0, 0], 'The plan fits.'],
    ['the plan for what was asked', { plan: 'free' }, [900, 4_320, 0], PRO_OR_HIGHER],
    ['the plan that has room for the worst minute', { plan: 'free' }, [900, 240, 0], 'The plan pro would fit.'],
    ['no certain plan, if the worst minute has no room', { plan: 'free' }, [900, 241, 0], PRO_OR_HIGHER],
    ['no certain plan, if a ban hides the demand', { plan: 'free' }, [900, 10, 9_000], PRO_OR_HIGHER],
    ['the plan for a whole day at the limit', { plan: 'free' }, [1_000, 0, 0], 'The plan fits.'],
    ['a plan above business', { plan: 'business' }, [90_000, 20_000, 0], 'The plan enterprise would fit.'],
    ['higher quotas', { requests_per_minute: 5_000 }, [900, 1, 0], 'The key needs a higher limit.'],
  ])('advises %s', async (_what, row, [admitted, rejected, banned], advice) => {
    const { id } = await insertKey(database.db, row);
    await add(id, 0, 30, admitted, { rejected, banned });
    const text = await textOf(id);
    const report = await jsonOf<{ keys: Record<string, unknown>[] }>();
    await database.db.query('DELETE FROM api_key_usage WHERE key_id = $1', [id]);
    expect(text).toContain(`\n${advice}\n`);
    // Both reports judge alike.
    const { fits, orHigher } = report.keys.find((key) => key.id === id)!;
    expect(advice).toMatch(
      fits === (row.plan ?? 'enterprise') ? /The plan fits|higher limit/ : new RegExp(String(fits)),
    );
    expect(orHigher).toBe(advice.includes('higher'));
  });

  it('says that there were no requests', async () => {
    expect(await textOf(ids.idle)).toContain('\nNo requests in this period.\n');
  });

  it('shows days without requests as zeros', async () => {
    const { days } = await jsonOf<{ days: { day: string; admitted: number }[] }>(ids.big, '--days', '400');
    expect(days.map(({ day, admitted }) => [day, admitted])).toEqual([
      [daysAgo(5), 150_000],
      ...[4, 3, 2, 1, 0].map((age) => [daysAgo(age), 0]),
    ]);
  });

  it.each([
    ['a deleted key', DELETED_ID, '(deleted)', 'p95 of daily requests, admitted and rejected: 17\n'],
    [
      'requests without a key',
      'anonymous',
      '(anonymous)',
      'Rejected: 8 requests over a limit, 0 during a ban\nEach address has limits of its own.\n',
    ],
  ])('shows %s', async (_what, id, name, conclusion) => {
    const text = await textOf(id);
    expect(text.startsWith(`${name}\n`)).toBe(true);
    expect(text).toContain(conclusion);
  });
});

describe('petstore keys usage fails with a message for', () => {
  const DAY = /--until.*a day from 2000-01-01 to today, \d{4}-\d\d-\d\d/;
  it.each<[string, number, RegExp]>([
    ['12345678-0000-4000-8000-000000000000', 1, /^error: There is no key with the id 12345678-/],
    ['12345678', 1, /^error: There is no key with the id 12345678\. "petstore keys list"/],
    ['42', 2, /^error: The id must be the UUID of a key/],
    ['--days 0', 2, /--days.*integer from 1 to 3650/],
    ['--days 3651', 2, /--days.*integer from 1 to 3650/],
    ...['2026-02-30', '1.11.2026', '2026-01-01T00:00:00Z', '9999-12-31', '1999-12-31'].map(
      (day): [string, number, RegExp] => [`--until ${day}`, 2, DAY],
    ),
  ])('%s', async (args, exitCode, message) => {
    const result = await usage(...args.split(' '));
    expect(result).toMatchObject({ exitCode, stdout: '' });
    expect(result.stderr).toMatch(message);
  });

  it('characters that several ids begin with', async () => {
    const twins = ['abcdef00-1000-4000-8000-000000000000', 'abcdef00-2000-4000-8000-000000000000'];
    for (const twin of twins) {
      const { id } = await insertKey(database.db);
      await database.db.query('UPDATE api_keys SET id = $1 WHERE id = $2', [twin, id]);
    }
    const result = await usage('abcdef00');
    expect(result).toMatchObject({
      exitCode: 1,
      stderr: `error: The ids of several keys begin with abcdef00 (${twins.join(', ')}); give more characters.\n`,
    });
    await database.db.query('DELETE FROM api_keys WHERE id = ANY($1)', [twins]);
  });
});
