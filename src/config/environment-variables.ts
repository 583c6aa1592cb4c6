import { isFQDN, isInt, isIP, max, min } from 'class-validator';
import ipaddr from 'ipaddr.js';
import { isDecodable } from '../common/is-decodable.js';

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

export type LogLevel = (typeof LOG_LEVELS)[number];

/** An environment variable of the service. */
export interface Variable<Value> {
  readonly name: string;
  /** Continues the sentence "must be …". */
  readonly expected: string;
  /** Undefined for a text that is not as expected. */
  readonly read: (text: string) => Value | undefined;
  /** The value when the variable is not set. */
  readonly otherwise: Value;
  /** No message quotes it. `file`: it may be set as `NAME_FILE` instead, the path of a file that contains it. */
  readonly secret?: 'file' | 'inline';
}

/** The whole configuration: where the service finds each setting, and the variable that sets it. */
export const SETTINGS = {
  production: variable('NODE_ENV', 'a text', (text) => text === 'production', false),
  /** Undefined outside production only: the service then starts the embedded database. */
  databaseUrl: databaseUrl('DATABASE_URL'),
  /** Undefined: limits are counted in memory. */
  redisUrl: {
    ...text(
      'REDIS_URL',
      'a URL like redis://host:6379 or rediss://user:password@host:6380, with special characters percent-encoded and without parameters',
      isRedisUrl,
      undefined,
    ),
    secret: 'file',
  },
  host: text('HOST', 'an address or host name to listen on, like 127.0.0.1 or 0.0.0.0', isHost, '127.0.0.1'),
  port: integer('PORT', 0, 65_535, 3_000),
  /** Trusted proxies for `X-Forwarded-For`: their number, their networks, or false for none. */
  trustProxy: variable<number | readonly string[] | false>(
    'TRUST_PROXY',
    'a number of proxies from 1 to 32, or a list of addresses and networks like 10.0.0.0/8,fd00::/8',
    (text) => (/^(?:[1-9]|[12]\d|3[0-2])$/.test(text) ? Number(text) : listOf(text, isNetwork)),
    false,
  ),
  /** Maximum number of open client connections. */
  connectionsMax: integer('MAX_CONNECTIONS', 1, 1_000_000, 5_000),
  publicBaseUrl: baseUrl('PUBLIC_BASE_URL'),
  stagingBaseUrl: baseUrl('STAGING_BASE_URL'),
  logLevel: variable<LogLevel>(
    'LOG_LEVEL',
    `one of ${LOG_LEVELS.join(', ')}`,
    (text) => LOG_LEVELS.find((level) => level === text),
    'info',
  ),
  /** Whether spans are exported; the OpenTelemetry SDK reads the OTEL variables from the environment. */
  tracing: {
    ...variable(
      'OTEL_EXPORTER_OTLP_ENDPOINT',
      'an http or https URL like http://collector:4318',
      (text) => isHttpUrl(text) || undefined,
      false,
    ),
    // It may contain the collector's password.
    secret: 'inline',
  },
  tracingProtocol: text('OTEL_EXPORTER_OTLP_PROTOCOL', 'http/json', (text) => text === 'http/json', undefined),
  /** 0: metrics are not served. */
  metricsPort: integer('METRICS_PORT', 0, 65_535, 9_464),
  docsEnabled: variable(
    'DOCS_ENABLED',
    'true or false',
    (text) => text === 'true' || (text === 'false' ? false : undefined),
    true,
  ),
  corsOrigins: list(
    'CORS_ORIGINS',
    'a list of origins like https://app.example.com,https://admin.example.com',
    (text) => isHttpUrl(text) && new URL(text).origin === text,
  ),
  apiKeyCacheSeconds: integer('API_KEY_CACHE_SECONDS', 0, 3_600, 10),
  ban: {
    threshold: integer('RATE_LIMIT_BAN_THRESHOLD', 0, 1_000, 10),
    windowSeconds: integer('RATE_LIMIT_BAN_WINDOW_SECONDS', 1, 86_400, 60),
    durationSeconds: integer('RATE_LIMIT_BAN_SECONDS', 1, 2_592_000, 300),
  },
  /** How many days before today the usage of keys is kept. */
  usageRetentionDays: integer('USAGE_RETENTION_DAYS', 1, 36_500, 400),
  list: {
    /** Lists that read from the database at once. */
    concurrency: integer('LIST_CONCURRENCY', 1, 100, 8),
    stallSeconds: integer('LIST_STALL_SECONDS', 1, 3_600, 60),
    /** Memory for compressed pieces of the list; 0: none are kept. */
    cacheBytes: integer('LIST_CACHE_MB', 0, 65_536, 64, 1_048_576),
  },
  cancelLockTimeoutMs: integer('CANCEL_LOCK_TIMEOUT_MS', 1, 60_000, 1_000),
  /** How long the service still accepts requests after a stop signal while its readiness check fails. */
  shutdownDelaySeconds: integer('SHUTDOWN_DELAY_SECONDS', 0, 300, 0),
  shutdownGraceSeconds: integer('SHUTDOWN_GRACE_SECONDS', 0, 3_600, 20),
} as const;

function variable<Value>(
  name: string,
  expected: string,
  read: (text: string) => Value | undefined,
  otherwise: Value,
): Variable<Value> {
  return { name, expected, read, otherwise };
}

function text<Otherwise extends string | undefined>(
  name: string,
  expected: string,
  accepts: (text: string) => boolean,
  otherwise: Otherwise,
): Variable<string | Otherwise> {
  return variable<string | Otherwise>(name, expected, (value) => (accepts(value) ? value : undefined), otherwise);
}

/** An integer in a range that includes both ends. */
function integer(name: string, lowest: number, highest: number, otherwise: number, unit = 1): Variable<number> {
  const read = (value: string): number | undefined => {
    const number = /^\d{1,15}$/.test(value) ? Number(value) : NaN;
    return isInt(number) && min(number, lowest) && max(number, highest) ? number * unit : undefined;
  };
  return variable(name, `an integer from ${lowest} to ${highest}`, read, otherwise * unit);
}

/** Values separated by commas. */
function list(name: string, expected: string, accepts: (part: string) => boolean): Variable<readonly string[]> {
  return variable<readonly string[]>(name, expected, (value) => listOf(value, accepts), []);
}

/** An optional URL of PostgreSQL. Every connection sets `search_path` to `public`, so that another schema would be ignored. */
function databaseUrl(name: string): Variable<string | undefined> {
  const expected =
    'a URL like postgresql://user:password@host:5432/database, with special characters percent-encoded and no schema or search_path but public';
  return { ...text(name, expected, isDatabaseUrl, undefined), secret: 'file' };
}

function baseUrl(name: string): Variable<string | undefined> {
  const accepts = (value: string): boolean =>
    isHttpUrl(value) && value.endsWith('/v1') && new URL(value).pathname.endsWith('/v1');
  return text(name, 'an http or https URL that ends in /v1, like https://api.example.com/v1', accepts, undefined);
}

function listOf(value: string, accepts: (part: string) => boolean): string[] | undefined {
  const parts = value.split(',').map((part) => part.trim());
  return parts.every(accepts) ? parts : undefined;
}

function isUrl(value: string, protocols: readonly string[]): boolean {
  // Clients decode the user and the password.
  return URL.canParse(value) && protocols.includes(new URL(value).protocol) && isDecodable(value);
}

function isHttpUrl(value: string): boolean {
  return isUrl(value, ['http:', 'https:']);
}

function isDatabaseUrl(value: string): boolean {
  if (/\s/.test(value) || !isUrl(value, ['postgresql:', 'postgres:'])) {
    return false;
  }
  const { pathname, searchParams } = new URL(value);
  const schema = searchParams.get('schema') ?? 'public';
  return pathname.length > 1 && schema === 'public' && !searchParams.get('options')?.includes('search_path');
}

function isRedisUrl(value: string): boolean {
  if (!isUrl(value, ['redis:', 'rediss:'])) {
    return false;
  }
  const { hostname, pathname, search } = new URL(value);
  // The client takes parameters for options of any kind, and ends the process when it cannot use one, or the database.
  return hostname !== '' && /^(?:\/\d*)?$/.test(pathname) && search === '';
}

function isHost(value: string): boolean {
  return isIP(value) || isFQDN(value, { require_tld: false });
}

function isNetwork(value: string): boolean {
  const [address = '', bits, ...rest] = value.split('/');
  // Four decimal octets are required: programs disagree on shorthands and octal notation.
  const isAddress = isIP(address);
  // A network of the whole address space would trust every client.
  return isAddress && rest.length === 0 && (bits === undefined || (ipaddr.isValidCIDR(value) && Number(bits) > 0));
}
