import { insertKey } from '../helpers/builders.js';
import { CLI } from '../helpers/build.js';
import { type CommandResult, runProcess } from '../helpers/petstore.js';
import { useTestDatabase } from '../helpers/test-database.js';

const database = useTestDatabase();

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

describe('a command whose stdout is a closed pipe', () => {
  it.each([[['keys', 'list']], [['openapi']], [['--help']]])('prints no error and exits with 0: %j', async (args) => {
    expect(await petstoreInto(CLOSED_PIPE, args)).toEqual({ exitCode: 0, stderr: '' });
  });
});

describe('a command whose stdout is a full disk', () => {
  it.each(['list', 'revoke ID'])('exits with 1 and says that what it has changed is done: keys %s', async (command) => {
    const { id } = await insertKey(database.db);
    expect(await petstoreInto(FULL_DISK, ['keys', ...command.replace('ID', id).split(' ')])).toEqual({
      exitCode: 1,
      stderr: 'error: Cannot write to stdout (ENOSPC). If the command changes something, it has done so.\n',
    });
    const { rows } = await database.db.query('SELECT revoked_at IS NOT NULL AS revoked FROM api_keys WHERE id = $1', [
      id,
    ]);
    expect(rows).toEqual([{ revoked: command === 'revoke ID' }]);
  });
});

it.each([CLOSED_PIPE, FULL_DISK])('petstore doctor exits with 2 for an error that nobody reads: %s', async (script) => {
  expect(await petstoreInto(`export PORT=none; ${script}`, ['doctor'])).toMatchObject({ exitCode: 2 });
});
