import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { insertKey } from '../helpers/builders.js';
import { petstore, petstoreProcess } from '../helpers/petstore.js';
import { createServiceLogin, type ServiceLogin } from '../helpers/service-login.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';
import { useTestDatabase } from '../helpers/test-database.js';

const UNPRINTABLE = /(?!\n)[\p{Cc}\p{Bidi_Control}]/u;
const FAILED = 1;
const USAGE = 2;
const UNKNOWN_ID = '00000000-0000-4000-8000-000000000000';

const database = useTestDatabase();
let revokedId: string;
beforeAll(async () => {
  ({ id: revokedId } = await insertKey(database.db, { revoked_at: new Date('2026-01-01T00:00:00Z') }));
});

async function allKeys(): Promise<unknown[]> {
  return (await database.db.query<Record<string, unknown>>('SELECT * FROM api_keys ORDER BY id')).rows;
}

describe('a keys command fails with a message, prints nothing and changes nothing, for', () => {
  const NAMED = ['issue', '--name', 'Partner'];
  test.each<[args: string[], exitCode: number, reason: RegExp]>([
    [[...NAMED, '--json'], USAGE, /required option '--plan <plan>'/],
    [
      ['issue', '--plan', 'free', '--name', `pst_${'a'.repeat(43)}`],
      USAGE,
      /^error: option '--name <name>' argument 'pst_aaaaaa…' is invalid. It must not contain/,
    ],
    [[...NAMED, '--plan', 'gold'], USAGE, /--plan.*'gold'.*free, pro, business, enterprise/],
    [[...NAMED, '--plan', 'enterprise', '--json'], USAGE, /both --per-minute and --per-day/],
    [[...NAMED, '--plan', 'pro', '--per-minute', '5', '--per-day', '5'], USAGE, /published quotas \(got pro\)/],
    [['revoke', '42', '--json'], USAGE, /The id must be the UUID of a key/],
    [['revoke', UNKNOWN_ID, '--json'], FAILED, /There is no key with the id 0000/],
    [['rotate', 'REVOKED'], FAILED, /is revoked; issue a new one instead/],
  ])('%j', async (args, exitCode, reason) => {
    const before = await allKeys();
    const withId = args.map((arg) => arg.replace('REVOKED', revokedId));
    const result = await petstore(['keys', ...withId], { DATABASE_URL: database.url });
    expect(result).toEqual({ exitCode, stdout: '', stderr: expect.stringMatching(reason) as unknown });
    expect(result.stderr).toMatch(/^error: /);
    expect(result.stderr).not.toMatch(/\n\s+at |node_modules|prisma|undefined|\[object/i);
    expect(await allKeys()).toEqual(before);
  });
});

// The other constraints are those that `doctor` expects.
it.each([
  ['an enterprise key has no quota', { requests_per_minute: null }],
  ['a free key has quotas', { plan: 'free', requests_per_minute: 5, requests_per_day: 5 } as const],
])('the database rejects a row in which %s', async (_what, overrides) => {
  await expect(insertKey(database.db, overrides)).rejects.toMatchObject({
    constraint: 'api_keys_quotas_iff_enterprise',
  });
});

describe('a command reports an unusable database in one line, without the password, when', () => {
  test.each<[string, () => string, RegExp]>([
    [
      'the connection is refused',
      () => '127.0.0.1:1',
      /^error: Cannot connect to the database at 127\.0\.0\.1:1: .*ECONNREFUSED.*\. Check DATABASE_URL.*\n$/,
    ],
    [
      'the password is wrong',
      () => new URL(database.url).host,
      /^error: .*login that the server accepts: password authentication failed.*\n$/,
    ],
  ])('%s', async (_what, host, reason) => {
    const DATABASE_URL = `postgresql://petstore:hunter2secret@${host()}/petstore`;
    const result = await petstore(['keys', 'list', '--json'], { DATABASE_URL });
    expect(result).toEqual({ exitCode: FAILED, stdout: '', stderr: expect.stringMatching(reason) as unknown });
    expect(result.stderr).not.toContain('hunter2secret');
  });
});

describe('a command without the access that it needs', () => {
  let login: ServiceLogin;
  beforeAll(async () => {
    login = await createServiceLogin(database);
  });
  afterAll(() => login.drop());

  it.each([
    [['keys', 'issue', '--name', 'Partner', '--plan', 'free'], 'table api_keys'],
    [['orders', 'import', '-'], 'sequence orders_id_seq'],
  ])('names the reason and the remedy: %j', async (args, reason) => {
    const result = await petstoreProcess(args, { DATABASE_URL: login.url }, 'petId,quantity\n7,1\n');
    expect(result).toEqual({
      exitCode: FAILED,
      stdout: '',
      stderr:
        `error: permission denied for ${reason}. ` +
        'Set DATABASE_URL to the login of an administrator; in containers use "docker compose run --rm admin".\n',
    });
  });

  it('loads orders with the documented privileges', async () => {
    await database.db.query(`GRANT INSERT ON orders TO ${login.role}`);
    await database.db.query(`GRANT SELECT, UPDATE ON orders_id_seq TO ${login.role}`);
    const result = await petstore(['seed', '--orders', '1'], { DATABASE_URL: login.url });
    expect(result).toMatchObject({ exitCode: 0, stdout: '1 order inserted, 0 existed already.\n' });
  });
});

describe('a command in a database where everybody may create in the schema', () => {
  beforeAll(() => database.db.query('GRANT CREATE ON SCHEMA public TO PUBLIC'));
  afterAll(() => database.db.query('REVOKE CREATE ON SCHEMA public FROM PUBLIC'));

  it('warns and names the remedy, and revokes a key', async () => {
    const { id } = await insertKey(database.db);
    const result = await petstore(['keys', 'revoke', id], { DATABASE_URL: database.url });
    expect(result).toMatchObject({ exitCode: 0, stdout: `The key ${id} is revoked.\n` });
    expect(result.stderr).toMatch(
      /^warning: PUBLIC may create in the schema public.* REVOKE CREATE ON SCHEMA public FROM PUBLIC;.*\n$/,
    );
    const { rowCount } = await database.db.query('DELETE FROM api_keys WHERE id = $1 AND revoked_at IS NOT NULL', [id]);
    expect(rowCount).toBe(1);
  });

  it('revokes a key also when it cannot find out who may create', async () => {
    const { id } = await insertKey(database.db);
    const login = await createServiceLogin(database, '');
    await database.db.query(`
      REVOKE SELECT ON pg_auth_members FROM PUBLIC; GRANT SELECT, UPDATE ON api_keys TO ${login.role}`);
    const result = await petstore(['keys', 'revoke', id], { DATABASE_URL: login.url });
    await database.db.query('GRANT SELECT ON pg_auth_members TO PUBLIC');
    await login.drop();
    expect(result).toMatchObject({ exitCode: 0, stdout: `The key ${id} is revoked.\n` });
    expect(result.stderr).toMatch(
      /^warning: Cannot find out who may create .*permission denied for table pg_auth_members\n$/,
    );
    await database.db.query('DELETE FROM api_keys WHERE id = $1', [id]);
  });
});

describe('a command', () => {
  const folder = useTemporaryFolder('url');

  it('takes the URL from DATABASE_URL_FILE in production, as in the containers: a key is revoked', async () => {
    const { id } = await insertKey(database.db);
    const file = join(folder, 'database-url');
    writeFileSync(file, `${database.url}\n`);
    const environment = { NODE_ENV: 'production', DATABASE_URL_FILE: file };
    expect(await petstore(['keys', 'revoke', id], environment)).toMatchObject({ exitCode: 0, stderr: '' });
    const { rowCount } = await database.db.query('DELETE FROM api_keys WHERE id = $1 AND revoked_at IS NOT NULL', [id]);
    expect(rowCount).toBe(1);
  });

  it('prints no character of a name that a terminal would act on, and JSON that means it', async () => {
    const name = 'evil\u001b[2J\u001b]0;x\u0007\u009b2J\u202e';
    // As in a database that is older than the constraint.
    await database.db.query('ALTER TABLE api_keys DROP CONSTRAINT api_keys_name_printable');
    const { id } = await insertKey(database.db, { name });
    for (const args of [['list'], ['list', '--json'], ['show', id], ['usage']]) {
      const { exitCode, stdout } = await petstore(['keys', ...args], { DATABASE_URL: database.url });
      expect({ args, exitCode }).toEqual({ args, exitCode: 0 });
      expect(stdout).toContain('evil\\u001b');
      expect(stdout).not.toMatch(UNPRINTABLE);
    }
    const { stdout } = await petstore(['keys', 'show', id, '--json'], { DATABASE_URL: database.url });
    expect(JSON.parse(stdout)).toMatchObject({ name });
    await database.db.query('DELETE FROM api_keys WHERE id = $1', [id]);
  });
});
