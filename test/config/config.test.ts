import { type Config, ConfigurationError, loadConfig } from '../../src/config/config.js';

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
  [
    'CORS_ORIGINS',
    'https://a.example.com, http://b:5173',
    'corsOrigins',
    ['https://a.example.com', 'http://b:5173'],
    [],
  ],
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
function flat(config: Config): Record<string, unknown> {
  const { ban, list, ...others } = config;
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

  it('ignores variables of other programs', () => {
    const others = { PATH: '/bin', HOME: '/root', port: 'x', DATABASE: 'y', npm_config_port: 'z', constructor: 'a' };
    expect(loadConfig(others)).toEqual(loadConfig({}));
  });

  it.each(['development', 'Production', 'prod'])('is not in production mode when NODE_ENV=%s', (value) => {
    expect(loadConfig({ NODE_ENV: value }).production).toBe(false);
  });
});

/** Name, minimum and maximum of every integer variable. */
const INTEGERS: [string, number, number][] = [
  ['PORT', 0, 65_535],
  ['METRICS_PORT', 0, 65_535],
  ['MAX_CONNECTIONS', 1, 1_000_000],
  ['KEEP_ALIVE_TIMEOUT_SECONDS', 1, 3_600],
  ['API_KEY_CACHE_SECONDS', 0, 3_600],
  ['RATE_LIMIT_BAN_THRESHOLD', 0, 1_000],
  ['RATE_LIMIT_BAN_WINDOW_SECONDS', 1, 86_400],
  ['RATE_LIMIT_BAN_SECONDS', 1, 2_592_000],
  ['USAGE_RETENTION_DAYS', 1, 36_500],
  ['LIST_CONCURRENCY', 1, 100],
  ['LIST_STALL_SECONDS', 1, 300],
  ['LIST_CACHE_MB', 0, 65_536],
  ['CANCEL_LOCK_TIMEOUT_MS', 1, 60_000],
  ['SHUTDOWN_DELAY_SECONDS', 0, 300],
  ['SHUTDOWN_GRACE_SECONDS', 0, 3_600],
];

describe.each(INTEGERS)('%s, an integer from %i to %i,', (name, min, max) => {
  it('accepts both bounds', () => {
    expect(problemsOf({ [name]: String(min) })).toEqual([]);
    expect(problemsOf({ [name]: String(max) })).toEqual([]);
  });

  it('rejects any other value and quotes it', () => {
    const bad = [String(max + 1), '-1', '1.5', '1e2', '0x10', ' 5', '5 ', '+5', 'five', '5s', '1,000', '9'.repeat(20)];
    for (const value of [...bad, ...(min > 0 ? [String(min - 1)] : []), 'NaN', 'Infinity', 'true', '∞']) {
      expect(problemsOf({ [name]: value })).toEqual([
        expect.stringMatching(new RegExp(`^${name} must be an integer from ${min} to ${max} \\(got "`)),
      ]);
      expect(problemsOf({ [name]: value })[0]).toContain(`(got "${/^9{20}$/.test(value) ? '9999' : value}`);
    }
  });
});

describe('loadConfig, for each variable,', () => {
  test.each<[string, string[]]>([
    [
      'DATABASE_URL',
      [
        'postgresql://user:password@host:5432/database',
        'postgres://host/database',
        'postgresql://user@[::1]:5432/db?sslmode=require',
        'postgresql://user:p%40ss%2Fword@host/database',
        'postgresql://host/database?schema=public&options=-cjit%3Doff',
      ],
    ],
    ['REDIS_URL', ['redis://host', 'redis://host:6379/0', 'rediss://user:password@host:6380']],
    ['HOST', ['127.0.0.1', '0.0.0.0', '::', '::1', 'localhost', 'my-host.example.com']],
    ['TRUST_PROXY', ['1', '32', '10.0.0.0/8', '10.0.0.1', 'fd00::/8', '::1', '10.0.0.0/8,fd00::/8', '127.0.0.1/32']],
    ['PUBLIC_BASE_URL', ['https://api.example.com/v1', 'http://localhost:3000/v1', 'https://example.com/a/b/v1']],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', ['http://collector:4318', 'https://user:password@traces.example.com/otlp']],
    ['LOG_LEVEL', ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']],
    ['DOCS_ENABLED', ['true', 'false']],
    [
      'CORS_ORIGINS',
      [
        ...['https://app.example.com', 'http://localhost:5173', 'https://a.example.com,https://b.example.com'],
        // Of apps.
        ...['capacitor://localhost', 'tauri://localhost', 'app://.', 'chrome-extension://abcdefgh'],
      ],
    ],
  ])('accepts %s as any of %j', (name, values) => {
    for (const value of values) {
      expect([value, problemsOf({ [name]: value })]).toEqual([value, []]);
    }
  });

  test.each<[string, RegExp, string[]]>([
    [
      'HOST',
      /^HOST must be an address or host name to listen on, like 127\.0\.0\.1 or 0\.0\.0\.0 \(got "/,
      ['http://localhost', 'localhost:3000', '[::1]', 'a b', '-host', 'host-', '*', ' localhost', 'x'.repeat(300)],
    ],
    [
      'TRUST_PROXY',
      /^TRUST_PROXY must be a number of proxies from 1 to 32, or a list of addresses and networks like 10\.0\.0\.0\/8,fd00::\/8 \(got "/,
      [
        ...['0', '33', '-1', '1.5', 'true', 'loopback', '*', 'proxy.example.com', '10.0.0.0/33', '10.0.0.0/-1'],
        ...['10.0.0.0/', '10.0.0.0/8,', ',', '256.0.0.1', '10.0.0.0/8;fd00::/8', 'fd00::/129', '1,2', '10.0.0.0/8,2'],
        // Shorthands and octal notation, on which programs disagree.
        ...['10/8', '10.1/16', '012.0.0.0/8', '167772160/8'],
        // Whole address spaces would trust every client; the proxy library rejects them only at the first request.
        ...['0.0.0.0/0', '::/0', '10.0.0.0/8,0.0.0.0/0'],
      ],
    ],
    [
      'PUBLIC_BASE_URL',
      /^PUBLIC_BASE_URL must be an http or https URL that ends in \/v1, like https:\/\/api\.example\.com\/v1 \(got "/,
      [
        ...['https://api.example.com', 'https://api.example.com/v1/', 'https://api.example.com/v2', '/v1', 'v1'],
        ...['api.example.com/v1', 'ftp://api.example.com/v1', 'https:///v1x', 'https://api.example.com/xv1'],
        // The segment must end the path.
        ...['https://api.example.com/?next=/v1', 'https://api.example.com/#/v1'],
        ...['https://api.example.com/v1?next=', 'https://api.example.com/v1#top'],
      ],
    ],
    ['STAGING_BASE_URL', /^STAGING_BASE_URL must be an http or https URL that ends in \/v1/, ['https://example.com/']],
    [
      'LOG_LEVEL',
      /^LOG_LEVEL must be one of fatal, error, warn, info, debug, trace, silent \(got "/,
      ['INFO', 'verbose', 'warning', '30', ' info', 'constructor'],
    ],
    ['DOCS_ENABLED', /^DOCS_ENABLED must be true or false \(got "/, ['yes', 'no', '1', '0', 'TRUE', 'on', ' true']],
    [
      'CORS_ORIGINS',
      /^CORS_ORIGINS must be a list of origins like https:\/\/app\.example\.com,capacitor:\/\/localhost, without \* \(got "/,
      [
        ...[
          'https://*.example.com',
          'capacitor://localhost/',
          'https://[zz',
          '*',
          'null',
          'app.example.com',
          'https://app.example.com/',
          'https://app.example.com/path',
          'https://',
        ],
        ...['https://app.example.com,', 'https://APP.example.com', 'https://app.example.com:443', 'app://'],
        'https://user@app.example.com',
      ],
    ],
  ])('rejects any other %s and says what is expected', (name, message, values) => {
    for (const value of values) {
      expect([value, problemsOf({ [name]: value })]).toEqual([value, [expect.stringMatching(message)]]);
      expect(problemsOf({ [name]: value })[0]).toContain(value.slice(0, 50));
    }
  });
});

describe('loadConfig, for a variable that holds a secret,', () => {
  test.each<[string, RegExp, string[]]>([
    [
      'DATABASE_URL',
      /^DATABASE_URL must be a URL with one host like postgresql:\/\/user:password@host:5432\/database \(for a socket, postgresql:\/\/user:password@localhost\/database\?host=\/directory\), with special characters percent-encoded, no search_path, and no schema other than public$/,
      [
        'mysql://user:hunter2@host/database',
        'user:hunter2@host/database',
        'postgresql://user:hunter2@host',
        'postgresql://user:hunter2@host,other/database',
        'postgresql://user:hunter2@ho st/database',
        'postgresql://user:hunter2%zz@host/database',
        'postgresql://host/database?schema=app',
        'postgresql://host/database?options=-csearch_path%3Dapp',
        'postgresql://host/database?options=-c%20search_path%3Dapp,public',
        'hunter2',
        '   ',
      ],
    ],
    [
      'REDIS_URL',
      /^REDIS_URL must be a URL like redis:\/\/host:6379 or rediss:\/\/user:password@host:6380, with special/,
      [
        'http://:hunter2@host:6379',
        'redis://:hunter2%zz@host:6379',
        'redis://:hunter2@host:6379/abc',
        'redis://:hunter2@host:6379?connectTimeout=x',
        'hunter2@host:6379',
        'host:6379',
        'redis://',
        'redis://:hunter2@host:6379,',
        'redis://:hunter2@host:6379,redis://:hunter2@other:6379',
        'redis://host,redis://other',
        'redis://:hunter2@host:99999',
      ],
    ],
    [
      'OTEL_EXPORTER_OTLP_ENDPOINT',
      /^OTEL_EXPORTER_OTLP_ENDPOINT must be an http or https URL like http:\/\/collector:4318$/,
      ['collector:4318', 'grpc://:hunter2@collector:4317', 'hunter2'],
    ],
    [
      'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
      /^OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must be an http or https URL like http:\/\/collector:4318$/,
      ['hunter2@collector:4318', 'hunter2'],
    ],
  ])('rejects an invalid %s without quoting it', (name, message, values) => {
    for (const value of values) {
      const problems = problemsOf({ [name]: value });
      expect([value, problems]).toEqual([value, [expect.stringMatching(message)]]);
      expect(problems.join()).not.toMatch(/hunter2|mysql/);
    }
  });

  it('does not quote a valid value when another variable is invalid', () => {
    const url = 'postgresql://user:hunter2@host/database';
    const error = (): unknown => loadConfig({ DATABASE_URL: url, REDIS_URL: 'redis://:hunter2@host', PORT: 'x' });
    expect(error).toThrow('PORT must be');
    expect(error).not.toThrow('hunter2');
  });
});

describe('ConfigurationError', () => {
  it('reports one problem for each invalid variable', () => {
    // Any NODE_ENV is valid, and x is the name of a host.
    // Those whose value may be any text have none.
    const names = SETTINGS.map(([variable]) => variable).filter(
      (variable) => !['NODE_ENV', 'OTEL_TRACES_EXPORTER'].includes(variable),
    );
    const problems = problemsOf({ ...Object.fromEntries(names.map((name) => [name, 'x'])), HOST: 'a b' });
    expect(problems.map((problem) => problem.split(' ')[0]).sort()).toEqual(names.sort());
  });

  it('reports once that no database is set in production', () => {
    expect(problemsOf({ NODE_ENV: 'production' })).toEqual([
      'DATABASE_URL (or DATABASE_URL_FILE) must be set in production to a URL like postgresql://user:password@host:5432/database',
    ]);
    expect(problemsOf({ NODE_ENV: 'production', DATABASE_URL: 'x' })).toHaveLength(1);
    expect(problemsOf({ NODE_ENV: 'production', DATABASE_URL: 'postgresql://host/database' })).toEqual([]);
  });

  it('reports that PORT and METRICS_PORT are the same', () => {
    expect(problemsOf({ PORT: '9464' })).toEqual(['METRICS_PORT must differ from PORT (both are 9464)']);
    expect(problemsOf({ PORT: '4000', METRICS_PORT: '4000' })).toEqual([
      'METRICS_PORT must differ from PORT (both are 4000)',
    ]);
    expect(problemsOf({ PORT: '0', METRICS_PORT: '0' })).toEqual([]);
  });
});
