/** Injection token of the {@link Config}. */
export const CONFIG = Symbol('config');

/** Everything that can be configured, checked and in the shape that the code uses. Read once, at start. */
export interface Config {
  readonly production: boolean;
  /** Undefined: the embedded database, which exists outside production only. */
  readonly databaseUrl: string | undefined;
  /** Addresses of one Redis, or of the nodes of a Redis Cluster; empty: limits are counted in memory. */
  readonly redisUrls: readonly string[];
  readonly host: string;
  readonly port: number;
  /** Whose `X-Forwarded-For` is believed: a number of proxies, a list of networks, or nobody's. */
  readonly trustProxy: number | readonly string[] | false;
  /** Connections of clients that are open at once. */
  readonly connectionsMax: number;
  readonly publicBaseUrl: string | undefined;
  readonly stagingBaseUrl: string | undefined;
  readonly logLevel: LogLevel;
  /** Whether spans are exported; where to and how, the OpenTelemetry SDK reads from the environment by itself. */
  readonly tracing: boolean;
  /** 0: no metrics. */
  readonly metricsPort: number;
  readonly docsEnabled: boolean;
  readonly corsOrigins: readonly string[];
  readonly apiKeyCacheSeconds: number;
  readonly ban: { readonly threshold: number; readonly windowSeconds: number; readonly durationSeconds: number };
  readonly list: { readonly concurrency: number; readonly stallSeconds: number };
  readonly cancelLockTimeoutMs: number;
  /** How long the service still answers, unready, so that balancers notice. */
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
