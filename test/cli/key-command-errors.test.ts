import { randomUUID } from 'node:crypto';
import { insertKey } from '../helpers/builders.js';
import { petstore } from '../helpers/petstore.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';

const UNPRINTABLE = /(?!\n)[\p{Cc}\p{Bidi_Control}]/u;
const FAILED = 1;
const USAGE = 2;
const UNKNOWN_ID = '00000000-0000-4000-8000-000000000000';

let database: TestDatabase;
let revokedId: string;
let expiredId: string;
beforeAll(async () => {
  database = await createTestDatabase();
  const past = new Date('2026-01-01T00:00:00Z');
  ({ id: revokedId } = await insertKey(database.db, { revoked_at: past }));
  ({ id: expiredId } = await insertKey(database.db, { plan: 'pro', expires_at: past }));
});
afterAll(() => database.drop());

async function allKeys(): Promise<unknown[]> {
  return (await database.db.query<Record<string, unknown>>('SELECT * FROM api_keys ORDER BY id')).rows;
}

const withIds = (args: readonly string[]): string[] =>
  args.map((arg) => arg.replace('REVOKED', revokedId).replace('EXPIRED', expiredId));

const ISSUE = ['issue', '--name', 'Partner'];

describe('a keys command fails with a message, prints nothing and changes nothing, for', () => {
  test.each<[string, string[], number, RegExp]>([
    ['no plan', [...ISSUE, '--json'], USAGE, /required option '--plan <plan>'/],
    ['no name', ['issue', '--plan', 'free'], USAGE, /required option '--name <name>'/],
    ['a blank name', ['issue', '--name', '  ', '--plan', 'free'], USAGE, /--name.*visible character/],
    [
      'a name with an escape sequence',
      ['issue', '--plan', 'free', '--name', 'evil\u001b[2J'],
      USAGE,
      /--name.*no control/,
    ],
    ['a name with a line break', ['issue', '--plan', 'free', '--name', 'a\nb'], USAGE, /--name[^]*no control/],
    ['a name that is shown reversed', ['issue', '--plan', 'free', '--name', 'a\u202eb'], USAGE, /--name.*no control/],
    ['an unknown plan', [...ISSUE, '--plan', 'gold'], USAGE, /--plan.*'gold'.*free, pro, business, enterprise/],
    [
      'enterprise without quotas',
      [...ISSUE, '--plan', 'enterprise', '--json'],
      USAGE,
      /both --per-minute and --per-day/,
    ],
    [
      'enterprise with half of its quotas',
      [...ISSUE, '--plan', 'enterprise', '--per-minute', '5'],
      USAGE,
      /both --per-minute and --per-day/,
    ],
    [
      'a published plan with quotas',
      [...ISSUE, '--plan', 'pro', '--per-minute', '5', '--per-day', '5'],
      USAGE,
      /plan pro has published quotas/,
    ],
    ['a quota of 0', [...ISSUE, '--plan', 'enterprise', '--per-minute', '0', '--per-day', '5'], USAGE, /--per-minute/],
    ['an invalid expiry time', [...ISSUE, '--plan', 'free', '--expires-at', 'tomorrow'], USAGE, /--expires-at.*2027/],
    [
      'an expiry in the past',
      [...ISSUE, '--plan', 'free', '--expires-at', '2026-01-01T00:00:00Z', '--json'],
      USAGE,
      /--expires-at.*future/,
    ],
    ['an unknown option', [...ISSUE, '--plan', 'free', '--colour', 'red'], USAGE, /unknown option '--colour'/],
    ['an extra argument', ['list', 'everything'], USAGE, /too many arguments/],
    ['an unknown command', ['frobnicate'], USAGE, /unknown command 'frobnicate'/],
    ['no id', ['revoke'], USAGE, /missing required argument 'id'/],
    ['an id that is not a UUID', ['revoke', '42', '--json'], USAGE, /The id must be the UUID of a key/],
    ['the key in place of its id', ['revoke', 'pst_0123456789', '--json'], USAGE, /UUID/],
    ['revoking an unknown key', ['revoke', UNKNOWN_ID, '--json'], FAILED, /There is no key with the id 0000/],
    ['rotating an unknown key', ['rotate', UNKNOWN_ID], FAILED, /There is no key with the id 0000/],
    ['changing an unknown key', ['set-plan', UNKNOWN_ID, '--plan', 'pro'], FAILED, /There is no key with/],
    ['showing an unknown key', ['show', UNKNOWN_ID, '--json'], FAILED, /There is no key with the id 0000/],
    ['unbanning an unknown key', ['unban', UNKNOWN_ID], FAILED, /There is no key with the id 0000/],
    ['rotating a revoked key', ['rotate', 'REVOKED'], FAILED, /is revoked; issue a new one instead/],
    ['rotating an expired key', ['rotate', 'EXPIRED'], FAILED, /is expired; issue a new one instead/],
    ['an invalid overlap', ['rotate', 'REVOKED', '--overlap', 'long'], USAGE, /--overlap.*90s, 30m, 24h/],
    ['set-plan without a plan', ['set-plan', 'EXPIRED'], USAGE, /required option '--plan <plan>'/],
    [
      'set-plan with half of the quotas',
      ['set-plan', 'EXPIRED', '--plan', 'enterprise', '--per-day', '5'],
      USAGE,
      /both/,
    ],
  ])('%s', async (_what, args, exitCode, reason) => {
    const before = await allKeys();
    const result = await petstore(['keys', ...withIds(args)], { DATABASE_URL: database.url });
    expect(result).toEqual({ exitCode, stdout: '', stderr: expect.stringMatching(reason) as unknown });
    expect(result.stderr).toMatch(/^error: /);
    expect(result.stderr).not.toMatch(UNPRINTABLE);
    expect(result.stderr).not.toMatch(/\n\s+at |node_modules|prisma|undefined|\[object/i);
    expect(await allKeys()).toEqual(before);
  });
});

describe('a command reports an unusable database in one line, without the password, when', () => {
  const withHost = (host: string, overrides: Partial<Pick<URL, 'password' | 'pathname'>> = {}): string => {
    const url = new URL('postgresql://petstore:hunter2secret@localhost/petstore');
    url.host = host;
    return Object.assign(url, overrides).href;
  };

  test.each<[string, () => string, RegExp]>([
    [
      'the connection is refused',
      () => withHost('127.0.0.1:1'),
      /^error: Cannot connect to the database "petstore" at 127\.0\.0\.1:1 as "petstore": .*ECONNREFUSED.*\. Check DATABASE_URL/,
    ],
    ['the host does not exist', () => withHost('no-such-host.invalid'), /no-such-host\.invalid|ENOTFOUND/],
    ['the password is wrong', () => withHost(new URL(database.url).host), /[Aa]uthentication failed/],
    [
      'the database does not exist',
      () => Object.assign(new URL(database.url), { pathname: '/no_such_database' }).href,
      /no_such_database/,
    ],
    [
      'the URL is invalid',
      () => 'mysql://petstore:hunter2secret@localhost/petstore',
      /DATABASE_URL must be a URL like/,
    ],
  ])('%s', async (_what, url, reason) => {
    const result = await petstore(['keys', 'list', '--json'], { DATABASE_URL: url() });
    expect(result).toEqual({
      exitCode: FAILED,
      stdout: '',
      stderr: expect.stringMatching(reason) as unknown,
    });
    expect(result.stderr).toMatch(/^error: /);
    expect(result.stderr).not.toContain('hunter2secret');
    expect(result.stderr).not.toMatch(/\n\s+at |node_modules/);
  });
});

describe('a command without the access that it needs', () => {
  let serviceUrl: URL;
  let role: string;
  beforeAll(async () => {
    role = `test_${randomUUID().replaceAll('-', '')}`;
    await database.db.query(`CREATE ROLE ${role} LOGIN PASSWORD 'hunter2secret' IN ROLE petstore_service`);
    serviceUrl = Object.assign(new URL(database.url), { username: role, password: 'hunter2secret' });
  });
  afterAll(() => database.db.query(`DROP ROLE ${role}`));

  it.each([
    [['keys', 'issue', '--name', 'Partner', '--plan', 'free'], 'SELECT, INSERT', 'api_keys'],
    [['keys', 'list'], 'SELECT', 'api_keys'],
    [['keys', 'revoke', UNKNOWN_ID], 'SELECT, UPDATE', 'api_keys'],
    [['keys', 'rotate', UNKNOWN_ID], 'SELECT, INSERT, UPDATE', 'api_keys'],
    [['orders', 'import', '-', '--format', 'csv'], 'INSERT', 'orders'],
    [['seed'], 'INSERT', 'orders'],
  ])('names the role of the service, the missing privileges and the remedy: %j', async (args, privileges, table) => {
    expect(await petstore(args, { DATABASE_URL: serviceUrl.href })).toEqual({
      exitCode: FAILED,
      stdout: '',
      stderr:
        `error: The role "${role}" lacks the privilege ${privileges} on the table ${table}. ` +
        'Set DATABASE_URL to the login of an administrator; in containers use "docker compose run --rm admin".\n',
    });
  });

  it('says that the migrations are missing when the table does not exist', async () => {
    const { href } = Object.assign(new URL(database.url), { pathname: '/postgres' });
    const result = await petstore(['keys', 'list'], { DATABASE_URL: href });
    expect(result).toMatchObject({ exitCode: FAILED, stdout: '' });
    expect(result.stderr).toMatch(/^error: The database has no table api_keys\. Apply the migrations: [^\n]+\n$/);
  });

  it('reports that the server is read-only when it writes, and can still read', async () => {
    const url = new URL(database.url);
    url.searchParams.set('options', '-c default_transaction_read_only=on');
    const result = await petstore(['keys', ...ISSUE, '--plan', 'free'], { DATABASE_URL: url.href });
    expect(result).toEqual({
      exitCode: FAILED,
      stdout: '',
      stderr: 'error: The database is read-only, as a standby server is. Set DATABASE_URL to the primary server.\n',
    });
    expect(await petstore(['keys', 'list'], { DATABASE_URL: url.href })).toMatchObject({ exitCode: 0, stderr: '' });
  });
});

describe('a command', () => {
  it('prints no character of a name that a terminal would act on, and JSON that means it', async () => {
    const name = 'evil\u001b[2J\u001b]0;x\u0007\u009b2J\u202e';
    // As in a database that is older than the constraint.
    await database.db.query('ALTER TABLE api_keys DROP CONSTRAINT api_keys_name_printable');
    const { id } = await insertKey(database.db, { name });
    for (const args of [['list'], ['list', '--json'], ['show', id], ['usage'], ['usage', id]]) {
      const { exitCode, stdout } = await petstore(['keys', ...args], { DATABASE_URL: database.url });
      expect({ args, exitCode }).toEqual({ args, exitCode: 0 });
      expect(stdout).toContain('evil\\u001b');
      expect(stdout).not.toMatch(UNPRINTABLE);
    }
    const { stdout } = await petstore(['keys', 'show', id, '--json'], { DATABASE_URL: database.url });
    expect(JSON.parse(stdout)).toMatchObject({ name });
    await database.db.query('DELETE FROM api_keys WHERE id = $1', [id]);
  });

  it('ignores invalid variables that only the service reads', async () => {
    const variables = { DATABASE_URL: database.url, PORT: 'http', LOG_LEVEL: 'loud' };
    const result = await petstore(['keys', 'list', '--json'], variables);
    expect(result).toMatchObject({ exitCode: 0, stderr: '' });
    expect(JSON.parse(result.stdout)).toHaveLength(2);
  });

  it('reports an invalid secret variable without quoting it', async () => {
    const result = await petstore(['keys', 'unban', revokedId], { DATABASE_URL: database.url, REDIS_URL: 'hunter2' });
    expect(result).toMatchObject({ exitCode: FAILED, stdout: '' });
    expect(result.stderr).toContain('REDIS_URL must be');
    expect(result.stderr).not.toContain('hunter2');
  });
});
