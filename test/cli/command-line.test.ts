import { type AddressInfo, createServer, type Server } from 'node:net';
import { generateKey } from '../../src/api-keys/key-format.js';
import { type CommandResult, petstore, petstoreProcess } from '../helpers/petstore.js';

const KEY = generateKey();

function expectNoTrace({ stdout, stderr }: CommandResult): void {
  expect(stdout + stderr).not.toMatch(/\n\s+at |node_modules|\.js:\d|hunter2/);
}

describe('petstore serve with an invalid configuration', () => {
  it('lists every problem on stderr, starts nothing and exits with 1', async () => {
    const result = await petstoreProcess(['serve'], {
      DATABASE_URL: 'mysql://user:hunter2@host/database',
      REDIS_URL: 'redis://:hunter2@',
      PORT: 'http',
      LOG_LEVEL: 'loud',
      TRUST_PROXY: 'everybody',
    });
    expect(result).toMatchObject({ exitCode: 1, stdout: '' });
    expect(result.stderr).toMatch(/^error: Invalid configuration:\n(?: {2}- [^\n]+\n){5}$/);
    for (const name of ['DATABASE_URL', 'REDIS_URL', 'PORT', 'LOG_LEVEL', 'TRUST_PROXY']) {
      expect(result.stderr).toContain(`  - ${name} must be `);
    }
    expectNoTrace(result);
  });

  it('exits with 1 in production when DATABASE_URL is not set, and starts no embedded database', async () => {
    const result = await petstoreProcess(['serve'], { NODE_ENV: 'production' });
    expect(result).toMatchObject({ exitCode: 1, stdout: '' });
    expect(result.stderr).toMatch(
      /^error: Invalid configuration:\n {2}- DATABASE_URL \(or DATABASE_URL_FILE\) must be set in production/,
    );
    expectNoTrace(result);
  });

  it('exits with 1 when the file of a secret does not exist', async () => {
    const result = await petstoreProcess(['serve'], { DATABASE_URL_FILE: '/nothing/here' });
    expect(result).toMatchObject({ exitCode: 1, stdout: '' });
    expect(result.stderr).toContain(
      'DATABASE_URL_FILE must be the path of a readable file (got "/nothing/here": ENOENT)',
    );
    expectNoTrace(result);
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

  it.each(['PORT', 'METRICS_PORT'])('exits with 1 and names the variable: %s', async (variable) => {
    const result = await petstoreProcess(['serve'], {
      DATABASE_URL: 'postgresql://nobody@127.0.0.1:1/none',
      PORT: '0',
      METRICS_PORT: '0',
      LOG_LEVEL: 'silent',
      [variable]: String(taken),
    });
    const problem = `${variable} must be a free port: another process listens on 127.0.0.1:${taken}`;
    expect(result).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: `error: Invalid configuration:\n  - ${problem}\n`,
    });
  });
});

describe('an invalid command line', () => {
  it.each([
    ['an unknown command', ['frobnicate'], /unknown command 'frobnicate'/],
    ['a misspelt command', ['serv'], /unknown command 'serv'\n\(Did you mean serve\?\)/],
    ['an unknown option', ['serve', '--colour'], /unknown option '--colour'/],
    ['an extra argument', ['serve', 'now'], /too many arguments/],
    ['no command', [], /Usage: petstore/],
    ['a group without a command', ['keys'], /Usage: petstore keys/],
    [
      'an unknown file extension',
      ['orders', 'import', 'orders.xml'],
      /Cannot infer the format .* pass --format csv or/,
    ],
    ['an unknown format', ['orders', 'import', 'orders.csv', '--format', 'xml'], /--format.*choices are ndjson, csv/],
    ['an invalid number of orders', ['seed', '--orders', 'many'], /--orders.*an integer from/],
  ])('exits with 2 and names the error on stderr: %s', async (_what, args, reason) => {
    const result = await petstore(args);
    expect(result).toEqual({ exitCode: 2, stdout: '', stderr: expect.stringMatching(reason) as unknown });
    expectNoTrace(result);
  });
});

describe('the petstore program', () => {
  it.each([
    ['the help', ['--help'], 0, /^Usage: petstore/, /^$/],
    ['an invalid command line', ['frobnicate'], 2, /^$/, /^error: unknown command 'frobnicate'/],
    [
      'a failure',
      ['orders', 'import', 'nothing.csv'],
      1,
      /^$/,
      /^error: Cannot read the file "nothing\.csv" \(ENOENT\)/,
    ],
  ])('prints %s and sets the exit code', async (_what, args, exitCode, stdout, stderr) => {
    expect(await petstoreProcess(args)).toEqual({
      exitCode,
      stdout: expect.stringMatching(stdout) as unknown,
      stderr: expect.stringMatching(stderr) as unknown,
    });
  });
});

describe('an API key in the place of another value', () => {
  it.each([
    [['keys', 'show', KEY]],
    [['keys', 'usage', KEY]],
    [['keys', 'usage', KEY.slice(4)]],
    [['keys', 'usage', '--until', KEY]],
    [['keys', 'revoke', KEY]],
    [['keys', 'rotate', KEY, '--overlap', '0']],
    [['keys', 'rotate', '00000000', '--overlap', KEY]],
    [['keys', 'set-plan', KEY, '--plan', 'pro']],
    [['keys', 'set-plan', '00000000', '--plan', KEY]],
    [['keys', 'unban', KEY]],
    [['keys', KEY]],
    [['orders', 'import', `${KEY}.csv`]],
    [[KEY]],
    [[`--key=${KEY}`]],
  ])('is not printed: %j', async (args) => {
    const { exitCode, stdout, stderr } = await petstore(args);
    expect(exitCode).toBeGreaterThan(0);
    expect(stderr).toContain('error: ');
    expect(`${stdout}${stderr}`).not.toContain(KEY.slice(10));
  });
});

describe('--help', () => {
  it.each([
    [['--help']],
    [['keys', '--help']],
    [['keys', 'issue', '--help']],
    [['orders', 'import', '--help']],
    [['seed', '--help']],
  ])('prints the usage on stdout and exits with 0: %j', async (args) => {
    const result = await petstore(args);
    expect(result).toMatchObject({ exitCode: 0, stderr: '' });
    expect(result.stdout).toMatch(/^Usage: petstore/);
    expect(result.stdout).not.toContain('default: false');
  });
});

describe('petstore openapi', () => {
  it('uses the configured servers and reads no other variable', async () => {
    const result = await petstore(['openapi'], { PUBLIC_BASE_URL: 'https://api.example.com/v1', PORT: 'http' });
    expect(result).toMatchObject({ exitCode: 0, stderr: '' });
    expect(JSON.parse(result.stdout)).toMatchObject({
      servers: [{ url: 'https://api.example.com/v1' }, { description: 'Staging' }],
    });
  });
});
