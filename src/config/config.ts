/** Injection token of the {@link Config}. */
export const CONFIG = Symbol('config');

/** The validated configuration of the service. It is read once, at start. */
export interface Config {
  readonly production: boolean;
  /** Undefined outside production only: the service then starts the embedded database. */
  readonly databaseUrl: string | undefined;
  /** Leads to PostgreSQL without a pooler: for `LISTEN` and commands. Undefined: `databaseUrl` does. */
  readonly databaseDirectUrl: string | undefined;
  /** `databaseUrl` leads to a pooler that assigns a server connection to each transaction. */
  readonly transactionPooler: boolean;
  /** A streaming standby of the database, which lists are read from. */
  readonly databaseReplicaUrl: string | undefined;
  /** One Redis server, or the nodes of a Redis Cluster; empty: limits are counted in memory. */
  readonly redisUrls: readonly string[];
  readonly host: string;
  readonly port: number;
  /** Trusted proxies for `X-Forwarded-For`: their number, their networks, or false for none. */
  readonly trustProxy: number | readonly string[] | false;
  /** Maximum number of open client connections. */
  readonly connectionsMax: number;
  readonly publicBaseUrl: string | undefined;
  readonly stagingBaseUrl: string | undefined;
  readonly logLevel: LogLevel;
  /** Whether spans are exported; the OpenTelemetry SDK reads the other OTEL variables from the environment. */
  readonly tracing: boolean;
  /** 0: metrics are not served. */
  readonly metricsPort: number;
  readonly docsEnabled: boolean;
  readonly corsOrigins: readonly string[];
  readonly apiKeyCacheSeconds: number;
  readonly ban: { readonly threshold: number; readonly windowSeconds: number; readonly durationSeconds: number };
  /** How many days before today the usage of keys is kept. */
  readonly usageRetentionDays: number;
  readonly list: {
    /** Lists that read from the database at once. */
    readonly concurrency: number;
    readonly stallSeconds: number;
    /** Memory for compressed blocks of the list; 0: none are kept. */
    readonly cacheBytes: number;
  };
  readonly cancelLockTimeoutMs: number;
  /** How long the service still accepts requests after a stop signal while its readiness check fails. */
  readonly shutdownDelaySeconds: number;
  readonly shutdownGraceSeconds: number;
}

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

export type LogLevel = (typeof LOG_LEVELS)[number];

/** The configuration is invalid; each problem names the variable, gives its value and says what is expected. */
export class ConfigurationError extends Error {
  constructor(readonly problems: readonly string[]) {
    super(`Invalid configuration:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`);
    this.name = 'ConfigurationError';
  }
}
