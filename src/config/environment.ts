import { Transform } from 'class-transformer';
import { IsIn, IsInt, IsOptional, Max, Min, Validate } from 'class-validator';
import { LOG_LEVELS, type LogLevel } from './config.js';
import { BaseUrl, Hostname, HttpUrl, OriginList, PostgresUrl, RedisUrlList, TrustProxy } from './environment-rules.js';

/** Digits become a number; anything else stays what it is, for the rule to name it. */
const Int = (): PropertyDecorator =>
  Transform(({ value }: { value: unknown }) =>
    typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value,
  );

/** A whole number between two bounds, both included. */
function WholeNumber(min: number, max: number): PropertyDecorator {
  const message = ({ property, value }: { property: string; value: unknown }): string =>
    `${property} must be a whole number from ${min} to ${max}, not "${String(value)}"`;
  return (target, property) => {
    Int()(target, property);
    IsInt({ message })(target, property);
    Min(min, { message })(target, property);
    Max(max, { message })(target, property);
  };
}

/** The environment as it may be set: one property a variable, with its default and its rule. */
export class Environment {
  @IsOptional()
  @Validate(PostgresUrl)
  readonly DATABASE_URL?: string;

  @IsOptional()
  @Validate(RedisUrlList)
  readonly REDIS_URL?: string;

  @Validate(Hostname)
  readonly HOST: string = '127.0.0.1';

  @WholeNumber(0, 65_535)
  readonly PORT: number = 3_000;

  @IsOptional()
  @Validate(TrustProxy)
  readonly TRUST_PROXY?: string;

  @WholeNumber(1, 1_000_000)
  readonly MAX_CONNECTIONS: number = 5_000;

  @IsOptional()
  @Validate(BaseUrl)
  readonly PUBLIC_BASE_URL?: string;

  @IsOptional()
  @Validate(BaseUrl)
  readonly STAGING_BASE_URL?: string;

  @IsIn(LOG_LEVELS, {
    message: ({ value }) => `LOG_LEVEL must be one of ${LOG_LEVELS.join(', ')}, not "${String(value)}"`,
  })
  readonly LOG_LEVEL: LogLevel = 'info';

  @IsOptional()
  @Validate(HttpUrl)
  readonly OTEL_EXPORTER_OTLP_ENDPOINT?: string;

  @IsOptional()
  @IsIn(['http/json'], {
    message: ({ value }) => `OTEL_EXPORTER_OTLP_PROTOCOL must be http/json, not "${String(value)}"`,
  })
  readonly OTEL_EXPORTER_OTLP_PROTOCOL?: string;

  @WholeNumber(0, 65_535)
  readonly METRICS_PORT: number = 9_464;

  @IsIn(['true', 'false'], { message: ({ value }) => `DOCS_ENABLED must be true or false, not "${String(value)}"` })
  readonly DOCS_ENABLED: 'true' | 'false' = 'true';

  @IsOptional()
  @Validate(OriginList)
  readonly CORS_ORIGINS?: string;

  @WholeNumber(0, 3_600)
  readonly API_KEY_CACHE_SECONDS: number = 10;

  @WholeNumber(0, 1_000)
  readonly RATE_LIMIT_BAN_THRESHOLD: number = 10;

  @WholeNumber(1, 86_400)
  readonly RATE_LIMIT_BAN_WINDOW_SECONDS: number = 60;

  @WholeNumber(1, 2_592_000)
  readonly RATE_LIMIT_BAN_SECONDS: number = 300;

  @WholeNumber(1, 100)
  readonly LIST_CONCURRENCY: number = 8;

  @WholeNumber(1, 3_600)
  readonly LIST_STALL_SECONDS: number = 30;

  @WholeNumber(1, 60_000)
  readonly CANCEL_LOCK_TIMEOUT_MS: number = 1_000;

  @WholeNumber(0, 300)
  readonly SHUTDOWN_DELAY_SECONDS: number = 0;

  @WholeNumber(0, 3_600)
  readonly SHUTDOWN_GRACE_SECONDS: number = 20;
}
