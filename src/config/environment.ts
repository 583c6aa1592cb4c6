import { Transform } from 'class-transformer';
import { IsIn, IsInt, IsOptional, Max, Min, Validate } from 'class-validator';
import { LOG_LEVELS, type LogLevel } from './config.js';
import {
  BaseUrl,
  got,
  Hostname,
  HttpUrl,
  OriginList,
  PostgresUrl,
  PublicSchemaUrl,
  RedisUrlList,
  TrustProxy,
} from './environment-rules.js';

/** Converts digits to a number and leaves any other text as it is, so that the error message can quote it. */
const Int = (): PropertyDecorator =>
  Transform(({ value }: { value: unknown }) =>
    typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value,
  );

/** An integer from `min` to `max`, both included. */
function Integer(min: number, max: number): PropertyDecorator {
  const message = ({ property, value }: { property: string; value: unknown }): string =>
    `${property} must be an integer from ${min} to ${max}${got(value)}`;
  return (target, property) => {
    Int()(target, property);
    IsInt({ message })(target, property);
    Min(min, { message })(target, property);
    Max(max, { message })(target, property);
  };
}

/** The environment variables of the service: one property per variable, with its default and its rule. */
export class Environment {
  @IsOptional()
  @Validate(PublicSchemaUrl)
  @Validate(PostgresUrl)
  readonly DATABASE_URL?: string;

  @IsOptional()
  @Validate(RedisUrlList)
  readonly REDIS_URL?: string;

  @Validate(Hostname)
  readonly HOST: string = '127.0.0.1';

  @Integer(0, 65_535)
  readonly PORT: number = 3_000;

  @IsOptional()
  @Validate(TrustProxy)
  readonly TRUST_PROXY?: string;

  @Integer(1, 1_000_000)
  readonly MAX_CONNECTIONS: number = 5_000;

  @IsOptional()
  @Validate(BaseUrl)
  readonly PUBLIC_BASE_URL?: string;

  @IsOptional()
  @Validate(BaseUrl)
  readonly STAGING_BASE_URL?: string;

  @IsIn(LOG_LEVELS, {
    message: ({ value }) => `LOG_LEVEL must be one of ${LOG_LEVELS.join(', ')}${got(value)}`,
  })
  readonly LOG_LEVEL: LogLevel = 'info';

  @IsOptional()
  @Validate(HttpUrl)
  readonly OTEL_EXPORTER_OTLP_ENDPOINT?: string;

  @IsOptional()
  @IsIn(['http/json'], {
    message: ({ value }) => `OTEL_EXPORTER_OTLP_PROTOCOL must be http/json${got(value)}`,
  })
  readonly OTEL_EXPORTER_OTLP_PROTOCOL?: string;

  @Integer(0, 65_535)
  readonly METRICS_PORT: number = 9_464;

  @IsIn(['true', 'false'], { message: ({ value }) => `DOCS_ENABLED must be true or false${got(value)}` })
  readonly DOCS_ENABLED: 'true' | 'false' = 'true';

  @IsOptional()
  @Validate(OriginList)
  readonly CORS_ORIGINS?: string;

  @Integer(0, 3_600)
  readonly API_KEY_CACHE_SECONDS: number = 10;

  @Integer(0, 1_000)
  readonly RATE_LIMIT_BAN_THRESHOLD: number = 10;

  @Integer(1, 86_400)
  readonly RATE_LIMIT_BAN_WINDOW_SECONDS: number = 60;

  @Integer(1, 2_592_000)
  readonly RATE_LIMIT_BAN_SECONDS: number = 300;

  @Integer(1, 100)
  readonly LIST_CONCURRENCY: number = 8;

  @Integer(1, 3_600)
  readonly LIST_STALL_SECONDS: number = 30;

  @Integer(0, 65_536)
  readonly LIST_CACHE_MB: number = 64;

  @Integer(1, 60_000)
  readonly CANCEL_LOCK_TIMEOUT_MS: number = 1_000;

  @Integer(0, 300)
  readonly SHUTDOWN_DELAY_SECONDS: number = 0;

  @Integer(0, 3_600)
  readonly SHUTDOWN_GRACE_SECONDS: number = 20;
}
