import { DomainError } from '../errors/domain-error.js';

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
