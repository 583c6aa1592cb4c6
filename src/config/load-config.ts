import 'reflect-metadata';
import { readFileSync } from 'node:fs';
import { plainToInstance } from 'class-transformer';
import { validateSync } from 'class-validator';
import { type Config, ConfigurationError } from './config.js';
import { Environment, splitList } from './environment.schema.js';

/** Variables that hold secrets. Each may be set as `NAME_FILE` instead: the path of a file that contains the value. */
const SECRET_VARIABLES = ['DATABASE_URL', 'DATABASE_DIRECT_URL', 'DATABASE_REPLICA_URL', 'REDIS_URL'] as const;

/**
 * Reads and validates the whole configuration. An empty variable counts as not set.
 * @throws {ConfigurationError} that lists every problem
 */
export function loadConfig(variables: NodeJS.ProcessEnv): Config {
  const problems: string[] = [];
  const given = readSecretFiles(withoutEmpty(variables), problems);
  const environment = plainToInstance(Environment, given, { exposeDefaultValues: true });
  for (const error of validateSync(environment, { stopAtFirstError: true })) {
    problems.push(...Object.values(error.constraints ?? {}).slice(0, 1));
  }
  const production = given.NODE_ENV === 'production';
  if (given.DATABASE_URL === undefined && !problems.some((problem) => problem.startsWith('DATABASE_URL'))) {
    if (production) {
      problems.push(
        'DATABASE_URL (or DATABASE_URL_FILE) must be set in production, a URL like postgresql://user:password@host:5432/database',
      );
    } else if (given.DATABASE_REPLICA_URL !== undefined) {
      problems.push('DATABASE_REPLICA_URL requires DATABASE_URL, the URL of its primary');
    }
  }
  if (environment.DATABASE_POOLER !== undefined && environment.DATABASE_DIRECT_URL === undefined) {
    problems.push(
      'DATABASE_DIRECT_URL must be set with DATABASE_POOLER: a URL that leads to PostgreSQL without the pooler',
    );
  }
  if (environment.METRICS_PORT !== 0 && environment.METRICS_PORT === environment.PORT) {
    problems.push(`METRICS_PORT must differ from PORT (both are ${environment.PORT})`);
  }
  if (problems.length > 0) {
    throw new ConfigurationError(problems);
  }
  return toConfig(environment, production);
}

function toConfig(environment: Environment, production: boolean): Config {
  return {
    production,
    databaseUrl: environment.DATABASE_URL,
    databaseDirectUrl: environment.DATABASE_DIRECT_URL,
    transactionPooler: environment.DATABASE_POOLER === 'transaction',
    databaseReplicaUrl: environment.DATABASE_REPLICA_URL,
    redisUrls: environment.REDIS_URL === undefined ? [] : splitList(environment.REDIS_URL),
    host: environment.HOST,
    port: environment.PORT,
    trustProxy: trustedProxies(environment.TRUST_PROXY),
    connectionsMax: environment.MAX_CONNECTIONS,
    publicBaseUrl: environment.PUBLIC_BASE_URL,
    stagingBaseUrl: environment.STAGING_BASE_URL,
    logLevel: environment.LOG_LEVEL,
    tracing: environment.OTEL_EXPORTER_OTLP_ENDPOINT !== undefined,
    metricsPort: environment.METRICS_PORT,
    docsEnabled: environment.DOCS_ENABLED === 'true',
    corsOrigins: environment.CORS_ORIGINS === undefined ? [] : splitList(environment.CORS_ORIGINS),
    apiKeyCacheSeconds: environment.API_KEY_CACHE_SECONDS,
    ban: {
      threshold: environment.RATE_LIMIT_BAN_THRESHOLD,
      windowSeconds: environment.RATE_LIMIT_BAN_WINDOW_SECONDS,
      durationSeconds: environment.RATE_LIMIT_BAN_SECONDS,
    },
    usageRetentionDays: environment.USAGE_RETENTION_DAYS,
    list: {
      concurrency: environment.LIST_CONCURRENCY,
      stallSeconds: environment.LIST_STALL_SECONDS,
      cacheBytes: environment.LIST_CACHE_MB * 1_048_576,
    },
    cancelLockTimeoutMs: environment.CANCEL_LOCK_TIMEOUT_MS,
    shutdownDelaySeconds: environment.SHUTDOWN_DELAY_SECONDS,
    shutdownGraceSeconds: environment.SHUTDOWN_GRACE_SECONDS,
  };
}

function trustedProxies(value: string | undefined): Config['trustProxy'] {
  if (value === undefined) {
    return false;
  }
  return /^\d+$/.test(value) ? Number(value) : splitList(value);
}

function withoutEmpty(variables: NodeJS.ProcessEnv): Record<string, string> {
  return Object.fromEntries(
    Object.entries(variables).filter((entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== ''),
  );
}

function readSecretFiles(given: Record<string, string>, problems: string[]): Record<string, string> {
  const merged = { ...given };
  for (const name of SECRET_VARIABLES) {
    const path = given[`${name}_FILE`];
    if (path === undefined) {
      continue;
    }
    if (given[name] !== undefined) {
      problems.push(`${name} and ${name}_FILE are both set; set one of them`);
      continue;
    }
    try {
      merged[name] = readFileSync(path, 'utf8').trim();
    } catch (error) {
      const reason = (error as NodeJS.ErrnoException).code ?? 'unreadable';
      // The secret itself may have been set by mistake.
      problems.push(
        `${name}_FILE must be the path of a readable file (${path.includes('://') ? 'got a URL' : `got "${path}": ${reason}`})`,
      );
    }
  }
  return merged;
}
