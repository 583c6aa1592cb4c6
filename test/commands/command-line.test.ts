import { type AddressInfo, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { generateKey } from '../../src/api-keys/api-keys.admin.js';
import { PROJECT_ROOT } from '../../src/common/project-root.js';
import { insertKey } from '../helpers/builders.js';
import { CLI } from '../helpers/build.js';
import { type CommandResult, petstore, petstoreProcess, runProcess } from '../helpers/petstore.js';
import { useTestDatabase } from '../helpers/test-database.js';

describe('petstore serve with an invalid configuration', () => {
  it('names every invalid variable on stderr, without its secrets, starts nothing and exits with 1', async () => {
    const { exitCode, stdout, stderr } = await petstoreProcess(['serve'], {
      ...{ DATABASE_URL: 'mysql://user:hunter2@host/database', REDIS_URL: 'redis://:hunter2@', PORT: 'http' },
      ...{ LOG_LEVEL: 'loud', TRUST_PROXY: 'everybody' },
    });
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' });
    expect(stderr).toMatch(
      /^error: Invalid configuration:(?:\n {2}- (?:DATABASE_URL|REDIS_URL|PORT|TRUST_PROXY|LOG_LEVEL) must be .*){5}\n$/,
    );
    expect(stderr).not.toContain('hunter2');
  });

  it('exits with 1 and says so when its working folder has been deleted', async () => {
    const script = 'cd "$(mktemp -d)" && rmdir "$PWD" && exec "$@"';
    const service = [process.execPath, join(PROJECT_ROOT, 'dist', 'bundle', 'main.js')];
    const environment = { DATABASE_URL: 'postgresql://nobody@127.0.0.1:1/none' };
    expect(await runProcess(['sh', '-c', script, 'sh', ...service], environment)).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: 'error: Invalid configuration:\n  - the working folder must exist; start the service in another one\n',
    });
  });
});

describe('petstore serve on a port that is in use', () => {
  let other: Server;
  let taken: number;
  beforeAll(async () => {
    other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    taken = (other.address() as AddressInfo).port;
  });
  afterAll(() => other.close());

  it.each(['PORT', 'METRICS_PORT'])('exits at once with 1 and names the address: %s', async (variable) => {
    const result = await petstoreProcess(['serve'], {
      DATABASE_URL: 'postgresql://nobody@127.0.0.1:1/none',
      // Longer than a test may take.
      SHUTDOWN_DELAY_SECONDS: '300',
      ...{ PORT: '0', METRICS_PORT: '0', LOG_LEVEL: 'silent', [variable]: String(taken) },
    });
    const stderr = `error: listen EADDRINUSE: address already in use 127.0.0.1:${taken}\n`;
    expect(result).toEqual({ exitCode: 1, stdout: '', stderr });
  });
});

describe('an invalid command line', () => {
  it.each([
    ['serv', /unknown command 'serv'\n\(Did you mean serve\?\)/],
    ['serve now', /too many arguments/],
    ['', /Usage: petstore/],
    ['seed --orders many', /--orders.*an integer from/],
  ])('exits with 2 and names the error on stderr: petstore %s', async (line, reason) => {
    const result = await petstore(line.split(' ').filter(Boolean));
    expect(result).toEqual({ exitCode: 2, stdout: '', stderr: expect.stringMatching(reason) as unknown });
  });
});

describe('the petstore program', () => {
  it.each([
    ['--help', 0, /^Usage: petstore/, /^$/],
    ['--version', 0, /^\d+\.\d+\.\d+(?:-dev)?\n$/, /^$/],
    ['frobnicate', 2, /^$/, /^error: unknown command 'frobnicate'/],
    ['orders import nothing.csv', 1, /^$/, /^error: (?=.*nothing\.csv).*ENOENT/],
  ])('prints to the right stream and sets the exit code: petstore %s', async (line, exitCode, stdout, stderr) => {
    expect(await petstoreProcess(line.split(' '))).toEqual({
      exitCode,
      stdout: expect.stringMatching(stdout) as unknown,
      stderr: expect.stringMatching(stderr) as unknown,
    });
  });
});

const KEY = generateKey();

it.each([
  [['keys', 'show', KEY]],
  [['keys', 'rotate', '00000000', '--overlap', KEY]],
  [['orders', 'import', `${KEY}.csv`]],
  [[KEY]],
  [[`--key=${KEY}`]],
])('an API key in the place of another value is not printed: %j', async (args) => {
  const { exitCode, stdout, stderr } = await petstore(args);
  expect(exitCode).toBeGreaterThan(0);
  expect(stderr).toContain('error: ');
  expect(`${stdout}${stderr}`).not.toContain(KEY.slice(10));
});

it('petstore openapi uses the configured servers', async () => {
  const { stdout } = await petstore(['openapi'], { PUBLIC_BASE_URL: 'https://api.example.com/v1' });
  expect(JSON.parse(stdout)).toMatchObject({
    servers: [{ url: 'https://api.example.com/v1' }, { description: 'Staging' }],
  });
});

describe('a command whose stdout', () => {
  const database = useTestDatabase();
  const FULL_DISK = '"$@" > /dev/full';

  async function petstoreInto(script: string, ...args: string[]): Promise<Omit<CommandResult, 'stdout'>> {
    // Without --norc, bash would read ~/.bashrc, because its stdin is a socket.
    const command = ['bash', '--norc', '-c', script, 'bash', process.execPath, CLI, ...args];
    const { exitCode, stderr } = await runProcess(command, { DATABASE_URL: database.url });
    return { exitCode, stderr };
  }

  it('is a closed pipe prints no error and exits with 0', async () => {
    // The reader has gone before the command starts.
    const closedPipe = 'exec 3> >(:); wait $!; "$@" >&3';
    expect(await petstoreInto(closedPipe, 'keys', 'list')).toEqual({ exitCode: 0, stderr: '' });
  });

  it('is a full disk exits with 1 and says that what it has changed is done', async () => {
    const { id } = await insertKey(database.db);
    expect(await petstoreInto(FULL_DISK, 'keys', 'revoke', id)).toEqual({
      exitCode: 1,
      stderr: 'error: Cannot write to stdout (ENOSPC). If the command changes something, it has done so.\n',
    });
    const { rowCount } = await database.db.query('SELECT FROM api_keys WHERE id = $1 AND revoked_at IS NOT NULL', [id]);
    expect(rowCount).toBe(1);
  });

  it('is a full disk keeps the exit code of doctor', async () => {
    expect(await petstoreInto(`export PORT=none; ${FULL_DISK}`, 'doctor')).toMatchObject({ exitCode: 2 });
  });
});
