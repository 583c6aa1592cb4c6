import { isFQDN, isIP } from 'class-validator';
import ipaddr from 'ipaddr.js';
import { databaseUrlOf, isUrl } from './database-url.js';
import { Environment } from './environment.js';

/** Injection token of the {@link Config}. */
export const CONFIG = Symbol('config');

/** Another text, such as `Production`, would silently mean development. */
const MODES = ['production', 'development', 'test'];

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

const COLLECTOR_URL = 'an http or https URL like http://collector:4318';
const BASE_URL = 'an http or https URL that ends in /v1, like https://api.example.com/v1';

/** The whole configuration: where the service finds each setting, the variable that sets it, its valid values and its default. */
const SETTINGS = {
  production: (env) =>
    env.text('NODE_ENV', `one of ${MODES.join(', ')}`, (text) => MODES.includes(text)) === 'production',
  /** Undefined outside production only: the service then starts the embedded database. */
  databaseUrl: (env) => databaseUrlOf(env),
  /** Undefined: limits are counted in memory. */
  redisUrl: (env) =>
    env.text(
      'REDIS_URL',
      'a URL like redis://host:6379 or rediss://user:password@host:6380, with special characters percent-encoded and without parameters',
      isRedisUrl,
      'file',
    ),
  host: (env) =>
    env.text('HOST', 'an address or host name to listen on, like 127.0.0.1 or 0.0.0.0', isHost) ?? '127.0.0.1',
  port: (env) => env.integer('PORT', 0, 65_535) ?? 3_000,
  /** Trusted proxies for `X-Forwarded-For`: their number or their networks. */
  trustProxy: (env) =>
    env.value(
      'TRUST_PROXY',
      'a number of proxies from 1 to 32, or a list of addresses and networks like 10.0.0.0/8,fd00::/8',
      (text) => (/^(?:[1-9]|[12]\d|3[0-2])$/.test(text) ? Number(text) : listOf(text, isNetwork)),
    ),
  /** Maximum number of open client connections. */
  connectionsMax: (env) => env.integer('MAX_CONNECTIONS', 1, 1_000_000) ?? 1_000,
  /** How long an idle connection stays open. Longer than the balancer keeps it, which else sends a request on a connection that closes. */
  keepAliveTimeoutSeconds: (env) => env.integer('KEEP_ALIVE_TIMEOUT_SECONDS', 1, 3_600) ?? 65,
  publicBaseUrl: (env) => env.text('PUBLIC_BASE_URL', BASE_URL, isBaseUrl),
  stagingBaseUrl: (env) => env.text('STAGING_BASE_URL', BASE_URL, isBaseUrl),
  logLevel: (env) =>
    env.value('LOG_LEVEL', `one of ${LOG_LEVELS.join(', ')}`, (text) => LOG_LEVELS.find((each) => each === text)) ??
    'info',
  /** Whether the OpenTelemetry SDK is loaded, which reads these and its other variables. The URLs may contain the collector's password. */
  tracing: (env) => {
    const endpoint = env.text('OTEL_EXPORTER_OTLP_ENDPOINT', COLLECTOR_URL, isHttpUrl, 'inline');
    const tracesEndpoint = env.text('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', COLLECTOR_URL, isHttpUrl, 'inline');
    const exporter = env.text('OTEL_TRACES_EXPORTER', 'a text', () => true);
    return [endpoint, tracesEndpoint, exporter].some((each) => each !== undefined);
  },
  /** 0: metrics are not served. */
  metricsPort: (env) => env.integer('METRICS_PORT', 0, 65_535) ?? 9_464,
  docsEnabled: (env) =>
    env.text('DOCS_ENABLED', 'true or false', (text) => text === 'true' || text === 'false') !== 'false',
  corsOrigins: (env) =>
    env.value(
      'CORS_ORIGINS',
      'a list of origins like https://app.example.com,capacitor://localhost, without *',
      (text) => listOf(text, isOrigin),
    ) ?? [],
  apiKeyCacheSeconds: (env) => env.integer('API_KEY_CACHE_SECONDS', 0, 3_600) ?? 10,
  ban: (env) => ({
    threshold: env.integer('RATE_LIMIT_BAN_THRESHOLD', 0, 1_000) ?? 10,
    windowSeconds: env.integer('RATE_LIMIT_BAN_WINDOW_SECONDS', 1, 86_400) ?? 60,
    durationSeconds: env.integer('RATE_LIMIT_BAN_SECONDS', 1, 2_592_000) ?? 300,
  }),
  /** How many days before today the usage of keys is kept. */
  usageRetentionDays: (env) => env.integer('USAGE_RETENTION_DAYS', 1, 36_500) ?? 400,
  list: (env) => ({
    /** Lists that read from the database at once. */
    concurrency: env.integer('LIST_CONCURRENCY', 1, 100) ?? 8,
    stallSeconds: env.integer('LIST_STALL_SECONDS', 1, 300) ?? 60,
    /** Memory for compressed pieces of the list; 0: none are kept. */
    cacheBytes: (env.integer('LIST_CACHE_MB', 0, 65_536) ?? 64) * 1_048_576,
  }),
  cancelLockTimeoutMs: (env) => env.integer('CANCEL_LOCK_TIMEOUT_MS', 1, 60_000) ?? 1_000,
  /** How long the service still accepts requests after a stop signal while its readiness check fails. */
  shutdownDelaySeconds: (env) => env.integer('SHUTDOWN_DELAY_SECONDS', 0, 300) ?? 0,
  shutdownGraceSeconds: (env) => env.integer('SHUTDOWN_GRACE_SECONDS', 0, 3_600) ?? 20,
} satisfies Record<string, (env: Environment) => unknown>;

/** The validated configuration of the service. It is read once, at start. */
export type Config = { readonly [Name in keyof typeof SETTINGS]: ReturnType<(typeof SETTINGS)[Name]> };

/** The configuration is invalid; each problem names the variable, gives its value and says what is expected. */
export class ConfigurationError extends Error {
  constructor(readonly problems: readonly string[]) {
    super(`Invalid configuration:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`);
    this.name = 'ConfigurationError';
  }
}

/**
 * Reads and validates the whole configuration. An empty variable counts as not set.
 * @throws {ConfigurationError} that lists every problem
 */
export function loadConfig(variables: NodeJS.ProcessEnv): Config {
  const environment = new Environment(variables);
  const settings = Object.entries(SETTINGS).map(([name, read]) => [name, read(environment)]);
  const config = Object.fromEntries(settings) as Config;
  const { problems } = environment;
  const { production, databaseUrl, port, metricsPort } = config;
  if (production && databaseUrl === undefined && !problems.some((problem) => problem.startsWith('DATABASE_URL'))) {
    problems.push(
      'DATABASE_URL (or DATABASE_URL_FILE) must be set in production to a URL like postgresql://user:password@host:5432/database',
    );
  }
  if (problems.length === 0 && metricsPort !== 0 && metricsPort === port) {
    problems.push(`METRICS_PORT must differ from PORT (both are ${port})`);
  }
  if (problems.length > 0) {
    throw new ConfigurationError(problems);
  }
  return config;
}

function isBaseUrl(text: string): boolean {
  return isHttpUrl(text) && text.endsWith('/v1') && new URL(text).pathname.endsWith('/v1');
}

/** Values separated by commas; undefined unless all are accepted. */
function listOf(text: string, accepts: (part: string) => boolean): string[] | undefined {
  const parts = text.split(',').map((part) => part.trim());
  return parts.every(accepts) ? parts : undefined;
}

/** A serialized origin, which is compared as text with what browsers and apps send. Only those of the web have one way to write them. */
function isOrigin(text: string): boolean {
  return (
    /^[a-z][a-z\d+.-]*:\/\/[^\s/?#@*]+$/.test(text) &&
    URL.canParse(text) &&
    [text, 'null'].includes(new URL(text).origin)
  );
}

function isHttpUrl(text: string): boolean {
  return isUrl(text, ['http:', 'https:']);
}

function isRedisUrl(text: string): boolean {
  if (!isUrl(text, ['redis:', 'rediss:'])) {
    return false;
  }
  const { hostname, pathname, search } = new URL(text);
  // The client takes parameters for options of any kind, and ends the process when it cannot use one, or the database.
  return hostname !== '' && /^(?:\/\d*)?$/.test(pathname) && search === '';
}

function isHost(text: string): boolean {
  return isIP(text) || isFQDN(text, { require_tld: false });
}

function isNetwork(text: string): boolean {
  const [address, bits] = text.split('/');
  // Four decimal octets are required (`isIP`): programs disagree on shorthands and octal notation. A network of the whole address
  // space would trust every client.
  return isIP(address) && (bits === undefined || (ipaddr.isValidCIDR(text) && Number(bits) > 0));
}
