import { type AddressInfo, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { generateKey } from '../../src/api-keys/api-keys.admin.js';
import { PROJECT_ROOT } from '../../src/common/project-root.js';
import { type CommandResult, petstore, petstoreProcess, runProcess } from '../helpers/petstore.js';

const KEY = generateKey();

function expectNoTrace({ stdout, stderr }: CommandResult): void {
  expect(stdout + stderr).not.toMatch(/\n\s+at |node_modules|\.js:\d|hunter2/);
}

describe('petstore serve with an invalid configuration', () => {
  it.each<[what: string, environment: Record<string, string>, problems: RegExp[]]>([
    [
      'every problem',
      {
        ...{ DATABASE_URL: 'mysql://user:hunter2@host/database', REDIS_URL: 'redis://:hunter2@', PORT: 'http' },
        ...{ LOG_LEVEL: 'loud', TRUST_PROXY: 'everybody' },
      },
      [/DATABASE_URL must be /, /REDIS_URL must be /, /PORT must be /, /TRUST_PROXY must be /, /LOG_LEVEL must be /],
    ],
    [
      'a missing DATABASE_URL in production, where it starts no embedded database',
      { NODE_ENV: 'production' },
      [/DATABASE_URL \(or DATABASE_URL_FILE\) must be set in production/],
    ],
  ])('names %s on stderr, starts nothing and exits with 1', async (_what, environment, problems) => {
    const result = await petstoreProcess(['serve'], environment);
    expect(result).toMatchObject({ exitCode: 1, stdout: '' });
    const [first, ...lines] = result.stderr.trimEnd().split('\n');
    expect(first).toBe('error: Invalid configuration:');
    expect(lines).toEqual(problems.map(({ source }): unknown => expect.stringMatching(`^  - ${source}`)));
    expectNoTrace(result);
  });
});

describe('a service that is started in a folder that has been deleted', () => {
  it.each(['dist/main.js', 'dist/bundle/main.js', 'dist/bundle/cli.js serve'])(
    'exits with 1 and says so: node %s',
    async (program) => {
      const [file = '', ...args] = program.split(' ');
      const script = 'cd "$(mktemp -d)" && rmdir "$PWD" && exec "$@"';
      const result = await runProcess(['sh', '-c', script, 'sh', process.execPath, join(PROJECT_ROOT, file), ...args], {
        DATABASE_URL: 'postgresql://nobody@127.0.0.1:1/none',
      });
      expect(result).toEqual({
        exitCode: 1,
        stdout: '',
        stderr: 'error: Invalid configuration:\n  - the working folder must exist; start the service in another one\n',
      });
    },
  );
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

  it.each(['PORT', 'METRICS_PORT'])('exits at once with 1 and names the variable: %s', async (variable) => {
    const result = await petstoreProcess(['serve'], {
      DATABASE_URL: 'postgresql://nobody@127.0.0.1:1/none',
      // Longer than a test may take.
      SHUTDOWN_DELAY_SECONDS: '300',
      ...{ PORT: '0', METRICS_PORT: '0', LOG_LEVEL: 'silent', [variable]: String(taken) },
    });
    const problem = `${variable} must be a free port: another process listens on 127.0.0.1:${taken}`;
    expect(result).toEqual({ exitCode: 1, stdout: '', stderr: `error: Invalid configuration:\n  - ${problem}\n` });
  });
});

describe('an invalid command line', () => {
  it.each([
    ['frobnicate', /unknown command 'frobnicate'/],
    ['serv', /unknown command 'serv'\n\(Did you mean serve\?\)/],
    ['serve --colour', /unknown option '--colour'/],
    ['serve now', /too many arguments/],
    ['', /Usage: petstore/],
    ['keys', /Usage: petstore keys/],
    ['seed --orders many', /--orders.*an integer from/],
  ])('exits with 2 and names the error on stderr: petstore %s', async (line, reason) => {
    const result = await petstore(line.split(' ').filter(Boolean));
    expect(result).toEqual({ exitCode: 2, stdout: '', stderr: expect.stringMatching(reason) as unknown });
    expectNoTrace(result);
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

it.each([
  ...['show', 'usage', 'usage --until', 'revoke', 'rotate --overlap 0', 'rotate 00000000 --overlap', ''].map(inKeys),
  ...['set-plan --plan pro', 'set-plan 00000000 --plan', 'unban'].map(inKeys),
  ...[['keys', 'usage', KEY.slice(4)], ['orders', 'import', `${KEY}.csv`], [KEY], [`--key=${KEY}`]],
])('an API key in the place of another value is not printed: %j', async (...args) => {
  const { exitCode, stdout, stderr } = await petstore(args);
  expect(exitCode).toBeGreaterThan(0);
  expect(stderr).toContain('error: ');
  expect(`${stdout}${stderr}`).not.toContain(KEY.slice(10));
});

function inKeys(command: string): string[] {
  return ['keys', ...command.split(' ').filter(Boolean), KEY];
}

describe('--help', () => {
  it.each(['', 'keys ', 'keys issue ', 'keys usage ', 'orders import ', 'seed '])(
    'prints the usage on stdout and exits with 0: petstore %s--help',
    async (command) => {
      const result = await petstore(`${command}--help`.split(' '));
      expect(result).toMatchObject({ exitCode: 0, stderr: '' });
      expect(result.stdout).toMatch(/^Usage: petstore/);
      expect(result.stdout).not.toContain('default: false');
    },
  );
});

it('petstore openapi uses the configured servers and reads no other variable', async () => {
  const result = await petstore(['openapi'], { PUBLIC_BASE_URL: 'https://api.example.com/v1', PORT: 'http' });
  expect(result).toMatchObject({ exitCode: 0, stderr: '' });
  expect(JSON.parse(result.stdout)).toMatchObject({
    servers: [{ url: 'https://api.example.com/v1' }, { description: 'Staging' }],
  });
});
