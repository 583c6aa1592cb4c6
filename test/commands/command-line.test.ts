import { type AddressInfo, createServer, type Server } from 'node:net';
import { generateKey } from '../../src/api-keys/api-keys.admin.js';
import { CLI } from '../helpers/build.js';
import { petstore, petstoreProcess, runProcess } from '../helpers/petstore.js';

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

describe('the petstore program', () => {
  it.each([
    ['--help', 0, /^Usage: petstore/, /^$/],
    ['--version', 0, /^\d+\.\d+\.\d+(?:-dev)?\n$/, /^$/],
    ['', 2, /^$/, /Usage: petstore/],
    ['frobnicate', 2, /^$/, /^error: unknown command 'frobnicate'/],
    ['serve now', 2, /^$/, /too many arguments/],
    ['seed --orders many', 2, /^$/, /--orders.*an integer from/],
    ['orders import nothing.csv', 1, /^$/, /^error: (?=.*nothing\.csv).*ENOENT/],
  ])('prints to the right stream and sets the exit code: petstore %s', async (line, exitCode, stdout, stderr) => {
    expect(await petstoreProcess(line.split(' ').filter(Boolean))).toEqual({
      exitCode,
      stdout: expect.stringMatching(stdout) as unknown,
      stderr: expect.stringMatching(stderr) as unknown,
    });
  });
});

it.each([
  // The reader has gone before the command starts.
  ['closed pipe', 'exec 3> >(:); wait $!; "$@" >&3', 0, ''],
  [
    'full disk',
    '"$@" > /dev/full',
    1,
    'error: Cannot write to stdout (ENOSPC). If the command changes something, it has done so.\n',
  ],
])('a command whose stdout is a %s', async (_stdout, script, exitCode, stderr) => {
  // Without --norc, bash would read ~/.bashrc, because its stdin is a socket.
  const command = ['bash', '--norc', '-c', script, 'bash', process.execPath, CLI, 'openapi'];
  expect(await runProcess(command)).toEqual({ exitCode, stdout: '', stderr });
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
