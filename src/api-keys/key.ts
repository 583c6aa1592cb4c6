import { hash } from 'node:crypto';
import { DomainError } from '../errors/domain-error.js';

/**
 * An API key is `pst_` and 43 random base62 characters (256 bits). The prefix lets secret scanners find leaked keys, and its
 * underscore lets a double click select the whole key.
 */
const KEY = /^pst_[0-9A-Za-z]{43}$/;

/** Whether a token has the format of a key. Such a key need not exist. */
export function isWellFormedKey(token: string): boolean {
  return KEY.test(token);
}

/** SHA-256 of the key in lower-case hexadecimal: what is stored, cached and compared. */
export function hashKey(key: string): string {
  return hash('sha256', key, 'hex');
}

export type KeyState = 'active' | 'expired' | 'revoked';

/**
 * Whether a key has expired; one without a date never does. A date of PostgreSQL outside the years of JavaScript is an `Invalid Date`,
 * which compares as false: such a key is expired, and not valid for ever.
 */
export function isExpired({ expiresAt }: { readonly expiresAt: Date | null }, nowMs: number): boolean {
  return expiresAt !== null && !(expiresAt.getTime() > nowMs);
}

export function stateOf(key: { readonly revokedAt: Date | null; readonly expiresAt: Date | null }): KeyState {
  if (key.revokedAt !== null) {
    return 'revoked';
  }
  return isExpired(key, Date.now()) ? 'expired' : 'active';
}

/** Built once, like those of `RateLimiter`. */
const MISSING_API_KEY = new DomainError('missing_api_key');
export const INVALID_API_KEY = new DomainError('invalid_api_key');

/** `b64token` of RFC 6750 section 2.1; the scheme is case-insensitive (RFC 9110 section 11.1). */
const BEARER = /^bearer +([A-Za-z0-9\-._~+/]+=*)$/i;
/** In any of several headers. */
const BEARER_SCHEME = /(?:^|, )bearer /i;

/**
 * Reads the bearer token from the `Authorization` header. Several are joined by a comma and a space, which no token has, so they are
 * invalid: a proxy may have used another one.
 * @returns the token, or why there is none: `missing_api_key` or `invalid_api_key`
 */
export function readBearer(value = ''): string | DomainError {
  // Blanks and tabs around a value are no part of it (RFC 9110 section 5.5); Node's parser has taken them off. Another scheme, or
  // the scheme without a token, is a request without credentials of ours.
  return BEARER.exec(value)?.[1] ?? (BEARER_SCHEME.test(value) ? INVALID_API_KEY : MISSING_API_KEY);
}
