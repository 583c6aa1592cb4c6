import { isIP } from 'node:net';
import { Transform } from 'class-transformer';
import { IsOptional, ValidateBy, type ValidationArguments } from 'class-validator';
import ipaddr from 'ipaddr.js';
import { LOG_LEVELS, type LogLevel } from './config.js';

const BASE_URL = 'an http or https URL that ends in /v1, like https://api.example.com/v1';

/** The environment variables of the service: one property per variable, with its default and its rule. */
export class Environment {
  @DatabaseUrl()
  readonly DATABASE_URL?: string;

  @DatabaseUrl()
  readonly DATABASE_DIRECT_URL?: string;

  @IsOptional()
  @Text('transaction, or not set', (text) => text === 'transaction')
  readonly DATABASE_POOLER?: string;

  @DatabaseUrl()
  readonly DATABASE_REPLICA_URL?: string;

  @IsOptional()
  @SecretText(
    'a URL like redis://host:6379 or rediss://user:password@host:6380, or several of them separated by commas (Redis Cluster)',
    (text) => splitList(text).every(isRedisUrl),
  )
  readonly REDIS_URL?: string;

  @Text('an address or host name to listen on, like 127.0.0.1 or 0.0.0.0', isHost)
  readonly HOST: string = '127.0.0.1';

  @Integer(0, 65_535)
  readonly PORT: number = 3_000;

  @IsOptional()
  @Text(
    'a number of proxies from 1 to 32, or a list of addresses and networks like 10.0.0.0/8,fd00::/8',
    (text) => /^(?:[1-9]|[12]\d|3[0-2])$/.test(text) || splitList(text).every(isNetwork),
  )
  readonly TRUST_PROXY?: string;

  @Integer(1, 1_000_000)
  readonly MAX_CONNECTIONS: number = 5_000;

  @IsOptional()
  @Text(BASE_URL, isBaseUrl)
  readonly PUBLIC_BASE_URL?: string;

  @IsOptional()
  @Text(BASE_URL, isBaseUrl)
  readonly STAGING_BASE_URL?: string;

  @Text(`one of ${LOG_LEVELS.join(', ')}`, (text) => LOG_LEVELS.some((level) => level === text))
  readonly LOG_LEVEL: LogLevel = 'info';

  @IsOptional()
  // It may contain the collector's password.
  @SecretText('an http or https URL like http://collector:4318', isHttpUrl)
  readonly OTEL_EXPORTER_OTLP_ENDPOINT?: string;

  @IsOptional()
  @Text('http/json', (text) => text === 'http/json')
  readonly OTEL_EXPORTER_OTLP_PROTOCOL?: string;

  @Integer(0, 65_535)
  readonly METRICS_PORT: number = 9_464;

  @Text('true or false', (text) => text === 'true' || text === 'false')
  readonly DOCS_ENABLED: string = 'true';

  @IsOptional()
  @Text('a list of origins like https://app.example.com,https://admin.example.com', (text) =>
    splitList(text).every((origin) => isHttpUrl(origin) && new URL(origin).origin === origin),
  )
  readonly CORS_ORIGINS?: string;

  @Integer(0, 3_600)
  readonly API_KEY_CACHE_SECONDS: number = 10;

  @Integer(0, 1_000)
  readonly RATE_LIMIT_BAN_THRESHOLD: number = 10;

  @Integer(1, 86_400)
  readonly RATE_LIMIT_BAN_WINDOW_SECONDS: number = 60;

  @Integer(1, 2_592_000)
  readonly RATE_LIMIT_BAN_SECONDS: number = 300;

  @Integer(1, 36_500)
  readonly USAGE_RETENTION_DAYS: number = 400;

  @Integer(1, 100)
  readonly LIST_CONCURRENCY: number = 8;

  @Integer(1, 3_600)
  readonly LIST_STALL_SECONDS: number = 60;

  @Integer(0, 65_536)
  readonly LIST_CACHE_MB: number = 64;

  @Integer(1, 60_000)
  readonly CANCEL_LOCK_TIMEOUT_MS: number = 1_000;

  @Integer(0, 300)
  readonly SHUTDOWN_DELAY_SECONDS: number = 0;

  @Integer(0, 3_600)
  readonly SHUTDOWN_GRACE_SECONDS: number = 20;
}

/** Splits a comma-separated value and trims the parts. */
export function splitList(text: string): string[] {
  return text.split(',').map((part) => part.trim());
}

/** An integer from `min` to `max`, both included. */
function Integer(min: number, max: number): PropertyDecorator {
  const isInRange = (value: unknown): boolean => typeof value === 'number' && value >= min && value <= max;
  // Any text but digits stays as it is, so that the error message can quote it.
  const toNumber = Transform(({ value }: { value: unknown }) =>
    typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value,
  );
  return (target, property) => {
    toNumber(target, property);
    Rule(`an integer from ${min} to ${max}`, isInRange)(target, property);
  };
}

function Text(expected: string, accepts: (text: string) => boolean, secret = false): PropertyDecorator {
  return Rule(expected, (value) => typeof value === 'string' && accepts(value), secret);
}

/** A text that no error message quotes. */
function SecretText(expected: string, accepts: (text: string) => boolean): PropertyDecorator {
  return Text(expected, accepts, true);
}

/** An optional URL of PostgreSQL. */
function DatabaseUrl(): PropertyDecorator {
  return (target, property) => {
    IsOptional()(target, property);
    SecretText('a URL like postgresql://user:password@host:5432/database', isPostgresUrl)(target, property);
    // Every connection sets `search_path` to `public`, so that another schema in the URL would be ignored.
    const otherSchema = 'a URL without a schema or search_path other than public, where the tables are';
    SecretText(otherSchema, hasNoOtherSchema)(target, property);
  };
}

function Rule(expected: string, validate: (value: unknown) => boolean, secret = false): PropertyDecorator {
  const defaultMessage = (args?: ValidationArguments): string =>
    `${args?.property} must be ${expected}${secret ? '' : ` (got "${String(args?.value)}")`}`;
  return ValidateBy({ name: expected, validator: { validate, defaultMessage } });
}

function isUrlWith(text: string, protocols: readonly string[]): boolean {
  return URL.canParse(text) && protocols.includes(new URL(text).protocol);
}

function isHttpUrl(text: string): boolean {
  return isUrlWith(text, ['http:', 'https:']);
}

function isBaseUrl(text: string): boolean {
  return isHttpUrl(text) && text.endsWith('/v1') && new URL(text).pathname.endsWith('/v1');
}

function isPostgresUrl(text: string): boolean {
  return !/\s/.test(text) && isUrlWith(text, ['postgresql:', 'postgres:']) && new URL(text).pathname.length > 1;
}

function hasNoOtherSchema(text: string): boolean {
  const parameters = new URL(text).searchParams;
  return (parameters.get('schema') ?? 'public') === 'public' && !parameters.get('options')?.includes('search_path');
}

function isRedisUrl(text: string): boolean {
  return isUrlWith(text, ['redis:', 'rediss:']) && new URL(text).hostname !== '';
}

function isHost(text: string): boolean {
  return isIP(text) !== 0 || /^[a-z0-9](?:[a-z0-9.-]{0,252}[a-z0-9])?$/i.test(text);
}

function isNetwork(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/');
  // Four decimal octets are required: programs disagree on shorthands and octal notation.
  const isAddress = isIP(address) !== 0;
  // A network of the whole address space would trust every client.
  return isAddress && rest.length === 0 && (bits === undefined || (ipaddr.isValidCIDR(text) && Number(bits) > 0));
}
