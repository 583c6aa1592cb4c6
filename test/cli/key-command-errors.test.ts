import { Command, CommanderError } from 'commander';
import { KeyAdministrationError } from '../../src/api-keys/api-keys.admin.js';
import { addKeyCommands } from '../../src/cli/key-commands.js';
import { insertKey } from '../helpers/builders.js';
import { petstore } from '../helpers/petstore.js';
import { createTestDatabase, type TestDatabase } from '../helpers/test-database.js';

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
  process.env.DATABASE_URL = database.url;
});
afterAll(async () => {
  delete process.env.DATABASE_URL;
  await database.drop();
});

async function allKeys(): Promise<unknown[]> {
  return (await database.db.query<Record<string, unknown>>('SELECT * FROM api_keys ORDER BY id')).rows;
}

const withIds = (args: readonly string[]): string[] =>
  args.map((arg) => arg.replace('REVOKED', revokedId).replace('EXPIRED', expiredId));

/** Runs a command in this process, which is quick; what is made of its failure is for {@link petstore} to show. */
async function failureOf(args: readonly string[]): Promise<{ failure: unknown; stdout: string; stderr: string }> {
  let [stdout, stderr] = ['', ''];
  const program = new Command('petstore').exitOverride().configureOutput({
    writeOut: (text) => (stdout += text),
    writeErr: (text) => (stderr += text),
  });
  addKeyCommands(program);
  const write = jest.spyOn(process.stdout, 'write').mockImplementation((text) => {
    stdout += String(text);
    return true;
  });
  try {
    await program.parseAsync(['keys', ...args], { from: 'user' });
    return { failure: undefined, stdout, stderr };
  } catch (failure) {
    return { failure, stdout, stderr };
  } finally {
    write.mockRestore();
  }
}

const ISSUE = ['issue', '--name', 'Partner'];

describe('a command that cannot be carried out says why, ends with a code of its own and writes nothing:', () => {
  test.each<[string, string[], number, RegExp]>([
    ['no plan', [...ISSUE], USAGE, /required option '--plan <plan>'/],
    ['no name', ['issue', '--plan', 'free'], USAGE, /required option '--name <name>'/],
    ['a blank name', ['issue', '--name', '  ', '--plan', 'free'], USAGE, /--name.*1 to 200 characters/],
    ['a plan that is none', [...ISSUE, '--plan', 'gold'], USAGE, /--plan.*'gold'.*free, pro, business, enterprise/],
    ['enterprise without quotas', [...ISSUE, '--plan', 'enterprise'], FAILED, /both --per-minute and --per-day/],
    [
      'enterprise with half of its quotas',
      [...ISSUE, '--plan', 'enterprise', '--per-minute', '5'],
      FAILED,
      /both --per-minute and --per-day/,
    ],
    [
      'a published plan with quotas',
      [...ISSUE, '--plan', 'pro', '--per-minute', '5', '--per-day', '5'],
      FAILED,
      /plan pro has published quotas/,
    ],
    ['a quota of 0', [...ISSUE, '--plan', 'enterprise', '--per-minute', '0', '--per-day', '5'], USAGE, /--per-minute/],
    [
      'an expiry that is no time',
      [...ISSUE, '--plan', 'free', '--expires-at', 'tomorrow'],
      USAGE,
      /--expires-at.*2027/,
    ],
    [
      'an expiry in the past',
      [...ISSUE, '--plan', 'free', '--expires-at', '2026-01-01T00:00:00Z', '--json'],
      USAGE,
      /--expires-at.*future/,
    ],
    [
      'an option that nobody knows',
      [...ISSUE, '--plan', 'free', '--colour', 'red'],
      USAGE,
      /unknown option '--colour'/,
    ],
    ['an argument too many', ['list', 'everything'], USAGE, /too many arguments/],
    ['a command that nobody knows', ['frobnicate'], USAGE, /unknown command 'frobnicate'/],
    ['no id', ['revoke'], USAGE, /missing required argument 'id'/],
    ['an id that is no UUID', ['revoke', '42'], USAGE, /'42'.*UUID/],
    ['the key in place of its id', ['revoke', 'pst_0123456789', '--json'], USAGE, /UUID/],
    ['to revoke a key that is not there', ['revoke', UNKNOWN_ID, '--json'], FAILED, /There is no key with the id 0000/],
    ['to rotate a key that is not there', ['rotate', UNKNOWN_ID], FAILED, /There is no key with the id 0000/],
    ['to change a key that is not there', ['set-plan', UNKNOWN_ID, '--plan', 'pro'], FAILED, /There is no key with/],
    ['to show a key that is not there', ['show', UNKNOWN_ID, '--json'], FAILED, /There is no key with the id 0000/],
    ['to unban a key that is not there', ['unban', UNKNOWN_ID], FAILED, /There is no key with the id 0000/],
    ['to rotate a revoked key', ['rotate', 'REVOKED'], FAILED, /is revoked; issue a new one instead/],
    ['to rotate an expired key', ['rotate', 'EXPIRED'], FAILED, /is expired; issue a new one instead/],
    ['an overlap that is no duration', ['rotate', 'REVOKED', '--overlap', 'long'], USAGE, /--overlap.*90s, 30m, 24h/],
    ['to give a key no plan', ['set-plan', 'EXPIRED'], USAGE, /required option '--plan <plan>'/],
    [
      'to give a key half of its quotas',
      ['set-plan', 'EXPIRED', '--plan', 'enterprise', '--per-day', '5'],
      FAILED,
      /both/,
    ],
  ])('%s', async (_what, args, exitCode, reason) => {
    const before = await allKeys();
    const { failure, stdout, stderr } = await failureOf(withIds(args));
    expect(failure).toBeInstanceOf(exitCode === USAGE ? CommanderError : KeyAdministrationError);
    expect(exitCode === USAGE ? stderr : (failure as Error).message).toMatch(reason);
    expect(stdout).toBe('');
    expect(await allKeys()).toEqual(before);
  });
});

describe('a command that fails as a process of its own says so on stderr and by its exit code:', () => {
  test.each<[string, string[], number, RegExp]>([
    ['an option that is missing', [...ISSUE, '--json'], USAGE, /required option '--plan <plan>'/],
    ['an argument that is wrong', ['revoke', '42', '--json'], USAGE, /'42'.*UUID/],
    [
      'options that do not fit',
      [...ISSUE, '--plan', 'enterprise', '--json'],
      FAILED,
      /both --per-minute and --per-day/,
    ],
    ['a key that is not there', ['revoke', UNKNOWN_ID, '--json'], FAILED, /There is no key with the id 0000/],
  ])('%s', async (_what, args, exitCode, reason) => {
    const before = await allKeys();
    const result = await petstore(['keys', ...args], { DATABASE_URL: database.url });
    expect(result).toEqual({ exitCode, stdout: '', stderr: expect.stringMatching(reason) as unknown });
    expect(result.stderr).toMatch(/^error: /);
    expect(result.stderr).not.toMatch(/\n\s+at |node_modules|prisma|undefined|\[object/i);
    expect(await allKeys()).toEqual(before);
  });
});

describe('a command without a usable database says so, without its password:', () => {
  const withHost = (host: string, overrides: Partial<Pick<URL, 'password' | 'pathname'>> = {}): string => {
    const url = new URL('postgresql://petstore:hunter2secret@localhost/petstore');
    url.host = host;
    return Object.assign(url, overrides).href;
  };

  test.each<[string, () => string, RegExp]>([
    ['nobody listens', () => withHost('127.0.0.1:1'), /127\.0\.0\.1:1|ECONNREFUSED/],
    ['there is no such host', () => withHost('no-such-host.invalid'), /no-such-host\.invalid|ENOTFOUND/],
    ['the password is wrong', () => withHost(new URL(database.url).host), /[Aa]uthentication failed/],
    [
      'there is no such database',
      () => Object.assign(new URL(database.url), { pathname: '/no_such_database' }).href,
      /no_such_database/,
    ],
    ['the URL is none', () => 'mysql://petstore:hunter2secret@localhost/petstore', /DATABASE_URL must be a URL like/],
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

describe('a command reads the variables that it needs:', () => {
  it('those that only the service reads do not keep it from its work', async () => {
    const variables = { DATABASE_URL: database.url, PORT: 'http', LOG_LEVEL: 'loud' };
    const result = await petstore(['keys', 'list', '--json'], variables);
    expect(result).toMatchObject({ exitCode: 0, stderr: '' });
    expect(JSON.parse(result.stdout)).toHaveLength(2);
  });

  it('what is wrong with its own it tells, without quoting it', async () => {
    const result = await petstore(['keys', 'unban', revokedId], { DATABASE_URL: database.url, REDIS_URL: 'hunter2' });
    expect(result).toMatchObject({ exitCode: FAILED, stdout: '' });
    expect(result.stderr).toContain('REDIS_URL must be');
    expect(result.stderr).not.toContain('hunter2');
  });
});
