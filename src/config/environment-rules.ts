import { isIP } from 'node:net';
import { type ValidationArguments, ValidatorConstraint, type ValidatorConstraintInterface } from 'class-validator';
import ipaddr from 'ipaddr.js';

/** A class-validator rule for a string, with the message for an invalid value. A secret value is never quoted. */
abstract class TextRule implements ValidatorConstraintInterface {
  protected abstract readonly expected: string;
  protected readonly secret: boolean = false;

  protected abstract accepts(text: string): boolean;

  validate(value: unknown): boolean {
    return typeof value === 'string' && this.accepts(value);
  }

  defaultMessage({ property, value }: ValidationArguments): string {
    return `${property} must be ${this.expected}${this.secret ? '' : got(value)}`;
  }
}

/** The end of an error message: the value as it was given. */
export function got(value: unknown): string {
  return ` (got "${String(value)}")`;
}

function isUrlWith(text: string, protocols: readonly string[]): boolean {
  return URL.canParse(text) && protocols.includes(new URL(text).protocol);
}

/** Splits a comma-separated value and trims the parts. */
export function splitList(text: string): string[] {
  return text.split(',').map((part) => part.trim());
}

@ValidatorConstraint()
export class PostgresUrl extends TextRule {
  protected readonly expected = 'a URL like postgresql://user:password@host:5432/database';
  protected override readonly secret = true;

  protected accepts(text: string): boolean {
    return !/\s/.test(text) && isUrlWith(text, ['postgresql:', 'postgres:']) && new URL(text).pathname.length > 1;
  }
}

/** Every connection sets `search_path` to `public`, so that another schema in the URL would be ignored. */
@ValidatorConstraint()
export class PublicSchemaUrl extends TextRule {
  protected readonly expected = 'a URL without a schema or search_path other than public, where the tables are';
  protected override readonly secret = true;

  protected accepts(text: string): boolean {
    const parameters = URL.canParse(text) ? new URL(text).searchParams : new URLSearchParams();
    return (
      (parameters.get('schema') ?? 'public') === 'public' && !(parameters.get('options') ?? '').includes('search_path')
    );
  }
}

@ValidatorConstraint()
export class RedisUrlList extends TextRule {
  protected readonly expected =
    'a URL like redis://host:6379 or rediss://user:password@host:6380, or several of them separated by commas (Redis Cluster)';
  protected override readonly secret = true;

  protected accepts(text: string): boolean {
    return splitList(text).every((url) => isUrlWith(url, ['redis:', 'rediss:']) && new URL(url).hostname !== '');
  }
}

@ValidatorConstraint()
export class Hostname extends TextRule {
  protected readonly expected = 'an address or host name to listen on, like 127.0.0.1 or 0.0.0.0';

  protected accepts(text: string): boolean {
    return isIP(text) !== 0 || /^[a-z0-9](?:[a-z0-9.-]{0,252}[a-z0-9])?$/i.test(text);
  }
}

@ValidatorConstraint()
export class TrustProxy extends TextRule {
  protected readonly expected =
    'a number of proxies from 1 to 32, or a list of addresses and networks like 10.0.0.0/8,fd00::/8';

  protected accepts(text: string): boolean {
    return /^(?:[1-9]|[12]\d|3[0-2])$/.test(text) || splitList(text).every(isNetwork);
  }
}

function isNetwork(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/');
  // Four decimal octets are required: programs disagree on shorthands and octal notation.
  const isAddress = isIP(address) !== 0;
  // A network of the whole address space would trust every client.
  return isAddress && rest.length === 0 && (bits === undefined || (ipaddr.isValidCIDR(text) && Number(bits) > 0));
}

@ValidatorConstraint()
export class BaseUrl extends TextRule {
  protected readonly expected = 'an http or https URL that ends in /v1, like https://api.example.com/v1';

  protected accepts(text: string): boolean {
    return isUrlWith(text, ['http:', 'https:']) && text.endsWith('/v1') && new URL(text).pathname.endsWith('/v1');
  }
}

@ValidatorConstraint()
export class HttpUrl extends TextRule {
  protected readonly expected = 'an http or https URL like http://collector:4318';
  // It may contain the collector's password.
  protected override readonly secret = true;

  protected accepts(text: string): boolean {
    return isUrlWith(text, ['http:', 'https:']);
  }
}

@ValidatorConstraint()
export class OriginList extends TextRule {
  protected readonly expected = 'a list of origins like https://app.example.com,https://admin.example.com';

  protected accepts(text: string): boolean {
    return splitList(text).every(
      (origin) => isUrlWith(origin, ['http:', 'https:']) && new URL(origin).origin === origin,
    );
  }
}
