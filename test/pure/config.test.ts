import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Config, ConfigurationError, loadConfig } from '../../src/config/config.js';
import { useTemporaryFolder } from '../helpers/temporary-folder.js';

/** The problems of an invalid configuration; empty when it is valid. */
function problemsOf(variables: Readonly<Record<string, string>>): readonly string[] {
  try {
    loadConfig(variables);
    return [];
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigurationError);
    return (error as ConfigurationError).problems;
  }
}

/** Each variable, a text for it, the setting, its value for the text, and its default. */
const SETTINGS: [string, string, string, unknown, unknown][] = [
  ['NODE_ENV', 'production', 'production', true, false],
  ['DATABASE_URL', 'postgresql://main/db', 'databaseUrl', 'postgresql://main/db', undefined],
  ['REDIS_URL', 'rediss://u:p@one:6379/1', 'redisUrl', 'rediss://u:p@one:6379/1', undefined],
  ['HOST', '0.0.0.0', 'host', '0.0.0.0', '127.0.0.1'],
  ['PORT', '8080', 'port', 8_080, 3_000],
  ['TRUST_PROXY', '10.0.0.0/8, fd00::/8,192.0.2.1', 'trustProxy', ['10.0.0.0/8', 'fd00::/8', '192.0.2.1'], undefined],
  ['MAX_CONNECTIONS', '100', 'connectionsMax', 100, 1_000],
  ['KEEP_ALIVE_TIMEOUT_SECONDS', '120', 'keepAliveTimeoutSeconds', 120, 65],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'http://collector:4318', 'tracing', true, false],
  ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'http://collector:4318/v1/traces', 'tracing', true, false],
  ['OTEL_TRACES_EXPORTER', 'console', 'tracing', true, false],
  ['PUBLIC_BASE_URL', 'https://api.example.com/v1', 'publicBaseUrl', 'https://api.example.com/v1', undefined],
  ['STAGING_BASE_URL', 'https://example.com/shop/v1', 'stagingBaseUrl', 'https://example.com/shop/v1', undefined],
  ['LOG_LEVEL', 'warn', 'logLevel', 'warn', 'info'],
  ['METRICS_PORT', '0', 'metricsPort', 0, 9_464],
  ['DOCS_ENABLED', 'false', 'docsEnabled', false, true],
  ['CORS_ORIGINS', 'https://a.example, http://b:5173', 'corsOrigins', ['https://a.example', 'http://b:5173'], []],
  ['API_KEY_CACHE_SECONDS', '0', 'apiKeyCacheSeconds', 0, 10],
  ['RATE_LIMIT_BAN_THRESHOLD', '0', 'ban.threshold', 0, 10],
  ['RATE_LIMIT_BAN_WINDOW_SECONDS', '120', 'ban.windowSeconds', 120, 60],
  ['RATE_LIMIT_BAN_SECONDS', '600', 'ban.durationSeconds', 600, 300],
  ['USAGE_RETENTION_DAYS', '30', 'usageRetentionDays', 30, 400],
  ['LIST_CONCURRENCY', '4', 'list.concurrency', 4, 8],
  ['LIST_STALL_SECONDS', '5', 'list.stallSeconds', 5, 60],
  ['LIST_CACHE_MB', '1', 'list.cacheBytes', 1_048_576, 67_108_864],
  ['CANCEL_LOCK_TIMEOUT_MS', '250', 'cancelLockTimeoutMs', 250, 1_000],
  ['SHUTDOWN_DELAY_SECONDS', '3', 'shutdownDelaySeconds', 3, 0],
  ['SHUTDOWN_GRACE_SECONDS', '7', 'shutdownGraceSeconds', 7, 20],
];

/** The settings with dots in their names, like `ban.threshold`. */
function flat({ ban, list, ...others }: Config): Record<string, unknown> {
  const inner = (group: string, settings: object): [string, unknown][] =>
    Object.entries(settings).map(([name, value]) => [`${group}.${name}`, value]);
  return { ...others, ...Object.fromEntries([...inner('ban', ban), ...inner('list', list)]) };
}

describe('loadConfig', () => {
  it('has a default for every setting', () => {
    const defaults = SETTINGS.map(([, , setting, , byDefault]) => [setting, byDefault]);
    expect(flat(loadConfig({}))).toEqual(Object.fromEntries(defaults));
  });

  it('reads every variable', () => {
    const variables = Object.fromEntries(SETTINGS.map(([variable, text]) => [variable, text]));
    const values = SETTINGS.map(([, , setting, value]) => [setting, value]);
    expect(flat(loadConfig(variables))).toEqual(Object.fromEntries(values));
  });

  it('treats an empty variable as not set', () => {
    const names = [...SETTINGS.map(([variable]) => variable), 'DATABASE_URL_FILE', 'REDIS_URL_FILE'];
    expect(loadConfig(Object.fromEntries(names.map((name) => [name, ''])))).toEqual(loadConfig({}));
  });

  it('reports one problem for each invalid variable', () => {
    // Of OTEL_TRACES_EXPORTER, any text is valid.
    const names = SETTINGS.map(([variable]) => variable).filter((name) => name !== 'OTEL_TRACES_EXPORTER');
    // x is a valid host name.
    const problems = problemsOf({ ...Object.fromEntries(names.map((name) => [name, 'x'])), HOST: 'a b' });
    expect(problems.map((problem) => problem.split(' ')[0]).sort()).toEqual(names.sort());
  });

  it('reports once that no database is set in production', () => {
    expect(problemsOf({ NODE_ENV: 'production' })).toEqual([
      'DATABASE_URL (or DATABASE_URL_FILE) must be set in production to a URL like postgresql://user:password@host:5432/database',
    ]);
    expect(problemsOf({ NODE_ENV: 'production', DATABASE_URL: 'x' })).toHaveLength(1);
    expect(problemsOf({ NODE_ENV: 'production', DATABASE_URL_FILE: '/none' })).toHaveLength(1);
  });

  it('reports that PORT and METRICS_PORT are the same', () => {
    expect(problemsOf({ PORT: '9464' })).toEqual(['METRICS_PORT must differ from PORT (both are 9464)']);
    expect(problemsOf({ PORT: '0', METRICS_PORT: '0' })).toEqual([]);
  });

  it('escapes what would change the line of an error on a terminal', () => {
    expect(problemsOf({ PORT: '3000\r', LOG_LEVEL: 'info\n', HOST: '\u001b[2J\u202e' })).toEqual([
      String.raw`HOST must be an address or host name to listen on, like 127.0.0.1 or 0.0.0.0 (got "\u001b[2J\u202e")`,
      String.raw`PORT must be an integer from 0 to 65535 (got "3000\u000d")`,
      String.raw`LOG_LEVEL must be one of fatal, error, warn, info, debug, trace, silent (got "info\u000a")`,
    ]);
  });
});

/** Of each variable, valid texts, what an error says is expected, and invalid texts. */
const TEXTS: [string, string[], string, string[]][] = [
  [
    'HOST',
    ['::', 'my-host.example.com'],
    'an address or host name to listen on, like 127.0.0.1 or 0.0.0.0',
    ['http://localhost', 'localhost:3000', '[::1]', '*'],
  ],
  [
    'TRUST_PROXY',
    ['32', '::1', '10.0.0.0/8,fd00::/8'],
    'a number of proxies from 1 to 32, or a list of addresses and networks like 10.0.0.0/8,fd00::/8',
    [
      ...['33', 'true', 'proxy.example.com', '10.0.0.0/33', '10.0.0.0/8,2'],
      // Shorthands and octal notation, on which programs disagree, and whole address spaces, which would trust every client.
      ...['10/8', '012.0.0.0/8', '10.0.0.0/8,::/0'],
    ],
  ],
  [
    'CORS_ORIGINS',
    // The last ones are of apps.
    ['https://a.example.com,http://localhost:5173', 'capacitor://localhost', 'app://.'],
    'a list of origins like https://app.example.com,capacitor://localhost, without *',
    [
      ...['*', 'null', 'https://*.example.com', 'app.example.com', 'https://app.example.com/'],
      // Browsers send them in another form.
      ...['https://APP.example.com', 'https://app.example.com:443'],
    ],
  ],
];

test.each(TEXTS)('%s accepts %j, and any other text is an error that quotes it', (name, valid, expected, invalid) => {
  expect(valid.flatMap((text) => problemsOf({ [name]: text }))).toEqual([]);
  for (const text of invalid) {
    expect(problemsOf({ [name]: text })).toEqual([`${name} must be ${expected} (got "${text}")`]);
  }
});

const DATABASE_URL = 'postgresql://user:hunter2@host:5432/database';

/** Of each variable that holds a secret, valid and invalid texts. */
const SECRETS: [string, string[], string[]][] = [
  [
    'DATABASE_URL',
    [
      ...[DATABASE_URL, 'postgres://user:p%40ss@[::1]:5432/db?sslmode=require'],
      'postgresql://host/db?schema=public&options=-cjit%3Doff',
    ],
    [
      ...['mysql://user:hunter2@host/database', 'postgresql://user:hunter2@host', 'hunter2'],
      ...['postgresql://user:hunter2@host,other/database', 'postgresql://user:hunter2%zz@host/database'],
      'postgresql://host/database?schema=app',
      'postgresql://host/database?options=-c%20search_path%3Dapp,public',
    ],
  ],
  [
    'REDIS_URL',
    ['redis://host', 'rediss://user:password@host:6380/0'],
    [
      ...['http://:hunter2@host:6379', 'redis://:hunter2@host:6379/abc', 'redis://'],
      // The client would end the process, or connect elsewhere.
      ...['redis://:hunter2@host:6379?connectTimeout=x', 'redis://host,redis://:hunter2@other'],
    ],
  ],
  [
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    ['https://user:password@traces.example.com/otlp'],
    ['grpc://:hunter2@collector:4317', 'hunter2'],
  ],
];

describe.each(SECRETS)('%s', (name, valid, invalid) => {
  it('accepts any valid text, and no error quotes an invalid one', () => {
    expect(valid.flatMap((text) => problemsOf({ [name]: text }))).toEqual([]);
    for (const text of invalid) {
      expect([text, problemsOf({ [name]: text })]).toEqual([text, [expect.stringMatching(`^${name} must be a.* URL`)]]);
      expect(problemsOf({ [name]: text }).join()).not.toContain('hunter2');
    }
  });

  it('says why a text is rejected that ends with a line break', () => {
    const [problem = ''] = problemsOf({ [name]: `${valid[0]}\n` });
    expect(problem).toMatch(/ \(got one with a line break or white space at its beginning or end\)$/);
    expect(problem).not.toContain('hunter2');
  });
});

describe('a secret in a file', () => {
  const folder = useTemporaryFolder('secrets');
  const path = join(folder, 'secret');

  it.each(['', '\r\n'])('is read without %j at its end, also when the variable itself is empty', (end) => {
    writeFileSync(path, `${DATABASE_URL}${end}`);
    const variables = { NODE_ENV: 'production', DATABASE_URL: '', DATABASE_URL_FILE: path };
    expect(loadConfig(variables).databaseUrl).toBe(DATABASE_URL);
    writeFileSync(path, `redis://host${end}`);
    expect(loadConfig({ REDIS_URL_FILE: path }).redisUrl).toBe('redis://host');
  });

  it('is rejected together with the variable itself', () => {
    expect(problemsOf({ DATABASE_URL, DATABASE_URL_FILE: path })).toEqual([
      'DATABASE_URL and DATABASE_URL_FILE are both set; set one of them',
    ]);
  });

  it('is rejected when the file cannot be read, without the path, in whose place a secret may have been set', () => {
    const directory = join(folder, 'directory');
    mkdirSync(directory);
    const given = [DATABASE_URL, directory].map((text) => problemsOf({ DATABASE_URL_FILE: text }));
    expect(given.flat()).toEqual([
      'DATABASE_URL_FILE must be the path of a readable file (ENOENT)',
      'DATABASE_URL_FILE must be the path of a readable file (EISDIR)',
    ]);
  });
});

describe('.env.example', () => {
  const lines = readFileSync(join(__dirname, '..', '..', '.env.example'), 'utf8').split('\n');
  /** Name and value of each line that matches. */
  const variables = (form: RegExp): [string, string][] =>
    lines.flatMap((line) => {
      const [, name, value] = form.exec(line) ?? [];
      return name === undefined || value === undefined ? [] : [[name, value] as [string, string]];
    });

  it('lists every variable of the service exactly once', () => {
    // Only the OpenTelemetry SDK reads it; the default was another one in release 1.0.0.
    const read = new Set(['OTEL_EXPORTER_OTLP_PROTOCOL']);
    loadConfig(new Proxy({}, { get: (_none, name: string) => void read.add(name) }));
    const named = variables(/^#?([A-Z_]+)=(.*)$/).map(([name]) => name);
    expect([...named, 'NODE_ENV', 'DATABASE_URL_FILE', 'REDIS_URL_FILE'].sort()).toEqual([...read].sort());
  });

  it('shows the defaults, and valid examples for the variables without one', () => {
    expect(loadConfig(Object.fromEntries(variables(/^([A-Z_]+)=(.*)$/)))).toEqual(loadConfig({}));
    const suggested = variables(/^#([A-Z_]+)=(.+)$/);
    expect(suggested.length).toBeGreaterThan(3);
    expect(problemsOf(Object.fromEntries(suggested))).toEqual([]);
  });
});
