import { insertKey } from '../helpers/builders.js';
import { CLI } from '../helpers/build.js';
import { type CommandResult, petstore, runProcess } from '../helpers/petstore.js';
import { useTestDatabase } from '../helpers/test-database.js';

const database = useTestDatabase();
beforeEach(() => database.db.query('TRUNCATE api_keys, orders'));

// The reader has gone before the command starts.
const CLOSED_PIPE = 'exec 3> >(:); wait $!; "$@" >&3';
const FULL_DISK = '"$@" > /dev/full';

/** Runs `petstore` with a stdout that fails. */
async function petstoreInto(script: string, args: readonly string[]): Promise<Omit<CommandResult, 'stdout'>> {
  // Without --norc, bash would read ~/.bashrc, because its stdin is a socket.
  const command = ['bash', '--norc', '-c', script, 'bash', process.execPath, CLI, ...args];
  const { exitCode, stderr } = await runProcess(command, { DATABASE_URL: database.url });
  return { exitCode, stderr };
}

async function allKeys(): Promise<unknown[]> {
  return (await database.db.query<Record<string, unknown>>('SELECT * FROM api_keys ORDER BY id')).rows;
}

const ISSUE = ['keys', 'issue', '--name', 'Partner', '--plan', 'free'];

describe('a command whose stdout is a closed pipe', () => {
  it.each([[['keys', 'list']], [['openapi']], [['--help']]])('prints no error and exits with 0: %j', async (args) => {
    expect(await petstoreInto(CLOSED_PIPE, args)).toEqual({ exitCode: 0, stderr: '' });
  });

  it('issues no key and exits with 1', async () => {
    expect(await petstoreInto(CLOSED_PIPE, ISSUE)).toEqual({
      exitCode: 1,
      stderr: 'error: Cannot write to stdout (EPIPE), so no key was issued. Run the command again.\n',
    });
    expect(await allKeys()).toEqual([]);
  });
});

it.each(['"$@" >&-', '"$@" > /dev/null'])(
  'petstore keys issue and rotate leave no key that nobody sees: %s',
  async (script) => {
    const { id } = await insertKey(database.db);
    const before = await allKeys();
    for (const args of [ISSUE, ['keys', 'rotate', id]]) {
      expect(await petstoreInto(script, args)).toEqual({
        exitCode: 2,
        stderr: 'error: Stdout is closed or discarded, so the new key would be lost; no key was issued.\n',
      });
    }
    expect(await allKeys()).toEqual(before);
  },
);

describe('a command whose stdout is a full disk', () => {
  it('exits with 1 when it only reads', async () => {
    const stderr = 'error: Cannot write to stdout (ENOSPC)\n';
    expect(await petstoreInto(FULL_DISK, ['keys', 'list'])).toEqual({ exitCode: 1, stderr });
    expect(await petstoreInto(FULL_DISK, ['openapi'])).toEqual({ exitCode: 1, stderr });
  });

  it('issues no key, and leaves the key that it should rotate unchanged', async () => {
    const { id } = await insertKey(database.db);
    const before = await allKeys();
    const failure = {
      exitCode: 1,
      stderr: 'error: Cannot write to stdout (ENOSPC), so no key was issued. Run the command again.\n',
    };
    expect(await petstoreInto(FULL_DISK, ISSUE)).toEqual(failure);
    expect(await petstoreInto(FULL_DISK, ['keys', 'rotate', id])).toEqual(failure);
    expect(await allKeys()).toEqual(before);
  });

  it('exits with 0 and warns when its change is committed', async () => {
    const { id } = await insertKey(database.db);
    expect(await petstoreInto(FULL_DISK, ['keys', 'revoke', id])).toEqual({
      exitCode: 0,
      stderr: 'warning: Cannot write to stdout (ENOSPC); the changes are committed.\n',
    });
    expect(await allKeys()).toEqual([expect.objectContaining({ id, revoked_at: expect.any(Date) as unknown })]);
  });
});

it.each([CLOSED_PIPE, FULL_DISK])('petstore doctor exits with 2 for an error that nobody reads: %s', async (script) => {
  expect(await petstoreInto(`export PORT=none; ${script}`, ['doctor'])).toMatchObject({ exitCode: 2 });
});

it('petstore keys issue exits with 1 and says that the printed key may be invalid when the commit fails', async () => {
  await database.db.query(`
    CREATE FUNCTION fail_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no commit today'; END $$;
    CREATE CONSTRAINT TRIGGER fails_commit AFTER INSERT ON api_keys DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION fail_commit()`);
  try {
    const result = await petstore([...ISSUE, '--json'], { DATABASE_URL: database.url });
    const { id } = JSON.parse(result.stdout) as { id: string };
    expect(result.exitCode).toBe(1);
    expect(result.stderr).toMatch(/^warning: The printed key .*\nerror: .*no commit today/);
    expect(result.stderr).toContain(`The printed key may be invalid: check with "petstore keys show ${id}".`);
  } finally {
    await database.db.query('DROP TRIGGER fails_commit ON api_keys; DROP FUNCTION fail_commit()');
  }
  expect(await allKeys()).toEqual([]);
});
