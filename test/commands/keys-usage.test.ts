import { insertKey, type KeyRow } from '../helpers/builders.js';
import { type CommandResult, failure, petstore } from '../helpers/petstore.js';
import { useTestDatabase } from '../helpers/test-database.js';

const ANONYMOUS_ID = '00000000-0000-0000-0000-000000000000';
const DELETED_ID = 'dddddddd-0000-4000-8000-000000000000';

const database = useTestDatabase();
beforeEach(() => database.db.query('TRUNCATE api_keys, api_key_usage'));
/** Commands run in this process: no test sees the day change. */
beforeAll(() => {
  jest.useFakeTimers({
    now: Date.UTC(2026, 10, 21, 12),
    doNotFake: [
      ...(['hrtime', 'nextTick', 'performance', 'queueMicrotask', 'setImmediate', 'clearImmediate'] as const),
      ...(['setInterval', 'clearInterval', 'setTimeout', 'clearTimeout'] as const),
    ],
  });
});

interface Counts {
  readonly rejected?: number;
  readonly banned?: number;
  readonly lists?: number;
  readonly cancels?: number;
  readonly list_bytes?: number;
}

/** Adds what a key did on a day. */
async function add(id: string, age: number, admitted: number, counts: Counts = {}): Promise<void> {
  const { rejected = 0, banned = 0, lists = 0, cancels = 0, list_bytes = 0 } = counts;
  await database.db.query('INSERT INTO api_key_usage VALUES ($1, $2, $3, $4, $5, $6, $7, $8)', [
    ...[id, daysAgo(age), admitted, rejected, banned, lists, cancels, list_bytes],
  ]);
}

async function keyWith(row: Partial<KeyRow>, admitted?: number, counts?: Counts): Promise<string> {
  const { id } = await insertKey(database.db, row);
  if (admitted !== undefined) {
    await add(id, 0, admitted, counts);
  }
  return id;
}

const daysAgo = (days: number): string => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);

const usage = (...args: string[]): Promise<CommandResult> =>
  petstore(['keys', 'usage', ...args], { DATABASE_URL: database.url });

async function linesOf(...args: string[]): Promise<string[]> {
  const { exitCode, stdout, stderr } = await usage(...args);
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  return stdout.trimEnd().split('\n');
}

async function jsonOf<T>(...args: string[]): Promise<T> {
  return JSON.parse((await linesOf(...args, '--json')).join('\n')) as T;
}

interface Key {
  readonly id: string;
  readonly admitted: number;
}

const PAST = new Date('2026-01-01T00:00:00Z');

describe('petstore keys usage', () => {
  it('lists the keys by the share of their daily limit, with the plan that they need', async () => {
    const idle = await keyWith({ name: 'Idle', plan: 'business' });
    const bursts = await keyWith({ name: 'Bursts', plan: 'free' }, 40, { rejected: 7, banned: 2 });
    const revoked = await keyWith({ name: 'Revoked', plan: 'free', revoked_at: PAST }, 30, { rejected: 5 });
    const full = await keyWith({ name: 'Full', plan: 'free' }, 1_000, { rejected: 30, banned: 12_345_678 });
    await add(full, 10, 12, { rejected: 1 });
    const near = await keyWith({ name: 'Near', plan: 'pro' }, 8_700);
    const small = await keyWith({ name: 'Small', plan: 'pro' }, 60);
    await keyWith({ name: 'Revoked without usage', revoked_at: PAST });
    await add(DELETED_ID, 29, 17);
    await add(DELETED_ID, 30, 9_999);
    await add(ANONYMOUS_ID, 0, 100, { rejected: 4 });
    const [title, , ...lines] = await linesOf();
    expect(title).toBe(`Usage from ${daysAgo(29)} to ${daysAgo(0)} (UTC)`);
    expect(lines.map((line) => line.trim().split(/ {2,}/))).toEqual([
      ['ID', 'PLAN', 'BUSIEST', 'SHARE', 'REJECTED', 'BANNED', 'NEEDS', 'NAME'],
      [full, 'free', '1,030', '103 %', '31', '12,345,678', 'pro+', 'Full'],
      [near, 'pro', '8,700', '87 %', '0', '0', 'pro', 'Near'],
      [bursts, 'free', '47', '4 %', '7', '2', 'pro+', 'Bursts'],
      [revoked, 'free', '35', '3 %', '5', '0', '-', 'Revoked (revoked)'],
      [small, 'pro', '60', '0 %', '0', '0', 'free', 'Small'],
      [idle, 'business', '0', '0 %', '0', '0', '-', 'Idle'],
      [ANONYMOUS_ID, '-', '104', '-', '4', '0', '-', '(anonymous)'],
      [DELETED_ID, '-', '17', '-', '0', '0', '-', '(deleted)'],
    ]);
  });

  it('prints all figures as JSON', async () => {
    const counts = { banned: 3, lists: 5, cancels: 4, list_bytes: 9_000_000_000 };
    const id = await keyWith({ name: 'Full', plan: 'free' }, 1_000, { rejected: 30, ...counts });
    await add(id, 1, 12, { rejected: 1, ...counts });
    expect(await jsonOf()).toEqual({
      ...{ from: daysAgo(29), to: daysAgo(0) },
      keys: [
        {
          ...{ id, name: 'Full', plan: 'free', state: 'active', requestsPerMinute: 60, requestsPerDay: 1_000 },
          ...{ admitted: 1_012, rejected: 31, banned: 6, lists: 10, cancels: 8, listBytes: 18_000_000_000 },
          ...{ busiestDay: 1_030, share: 1.03, overDay: 30, overMinute: 1, needs: 'pro' },
        },
        expect.objectContaining({ id: ANONYMOUS_ID, state: 'anonymous', admitted: 0, share: null, needs: null }),
      ],
    });
  });

  it('counts the days of the period only, back from --until', async () => {
    const id = await keyWith({ plan: 'pro' });
    for (const age of [18, 19, 21, 22]) {
      await add(id, age, age);
    }
    const period = ['--days', '3', '--until', daysAgo(19)];
    const report = await jsonOf<{ from: string; keys: Key[] }>(...period);
    expect([report.from, report.keys[0]!.admitted]).toEqual([daysAgo(21), 19 + 21]);
    const { days } = await jsonOf<{ days: unknown[] }>(id, ...period);
    expect(days).toEqual([
      expect.objectContaining({ day: daysAgo(21), admitted: 21 }),
      expect.objectContaining({ day: daysAgo(19), admitted: 19 }),
    ]);
  });
});

describe('petstore keys usage ID', () => {
  it('shows the days with requests, by how much which limit was exceeded, and what the key needs', async () => {
    const id = await keyWith({ name: 'Full', plan: 'free' }, 1_000, { rejected: 30, banned: 12, list_bytes: 987_654 });
    await add(id, 2, 12, { rejected: 1, lists: 5 });
    expect(await linesOf(id.slice(0, 8))).toEqual([
      ...[`from               ${daysAgo(29)}`, `to                 ${daysAgo(0)}`],
      ...[
        `id                 ${id}`,
        'name               Full',
        'plan               free',
        'state              active',
      ],
      ...['requestsPerMinute  60', 'requestsPerDay     1000'],
      ...['admitted           1012', 'rejected           31', 'banned             12'],
      ...['lists              5', 'cancels            0', 'listBytes          987654'],
      ...['busiestDay         1030', 'share              103 %', 'overDay            30', 'overMinute         1'],
      'needs              pro+',
      '',
      '       DAY  ADMITTED  REJECTED  BANNED  LISTS  CANCELS    BYTES',
      `${daysAgo(2)}        12         1       0      5        0        0`,
      `${daysAgo(0)}     1,000        30      12      0        0  987,654`,
    ]);
  });

  it.each<[string, Partial<KeyRow>, [admitted: number, rejected: number], string]>([
    ['a smaller plan, if a day fits in its minute', { plan: 'business' }, [60, 0], 'free'],
    ['no smaller plan, if a day may have been a minute', { plan: 'business' }, [500, 0], 'business'],
    ['the plan for what was asked', { plan: 'free' }, [900, 9_101], 'business+'],
    ['higher quotas', { requests_per_minute: 5_000 }, [900, 1], 'enterprise+'],
    ['no plan for a key that has expired', { plan: 'pro', expires_at: PAST }, [9_999, 0], '-'],
  ])('names %s', async (_what, row, [admitted, rejected], needs) => {
    expect(await linesOf(await keyWith(row, admitted, { rejected }))).toContain(`needs              ${needs}`);
  });
});

describe('petstore keys usage fails with a message for', () => {
  it.each<[string, number, RegExp]>([
    ['12345678', 1, /^error: There is no key with the id 12345678\. "petstore keys list"/],
    ['--days 0', 2, /--days.*integer from 1 to 3650/],
    ['--until 2026-02-30', 2, /--until.*a day from 2000-01-01 to today, 2026-11-21/],
    ['--until 2026-11-22', 2, /--until.*a day from 2000-01-01 to today, 2026-11-21/],
  ])('%s', async (args, exitCode, message) => {
    const result = await usage(...args.split(' '));
    expect(result).toMatchObject({ exitCode, stdout: '' });
    expect(result.stderr).toMatch(message);
  });

  it('characters that several ids begin with', async () => {
    const twins = ['abcdef00-1000-4000-8000-000000000000', 'abcdef00-2000-4000-8000-000000000000'];
    for (const twin of twins) {
      await add(twin, 0, 1);
    }
    const message = `The ids of several keys begin with abcdef00 (${twins.join(', ')}); give more characters.`;
    expect(await usage('abcdef00')).toEqual(failure(message));
  });
});
