import { rawValuesOf } from '../http/request-context.js';
import { INVALID_API_KEY, MISSING_API_KEY } from './rejection.js';

/** The scheme, which is case-insensitive (RFC 9110 section 11.1), and `b64token` of RFC 6750 section 2.1, if there is one. */
const BEARER = /^bearer (?: *([A-Za-z0-9\-._~+/]+=*)$)?/i;

/**
 * Reads the bearer token from a request's raw headers. Two `Authorization` headers are invalid, because Node keeps the first and
 * a proxy may have used the last.
 * @returns the token, or why there is none
 */
export function readBearer(rawHeaders: readonly string[]): string | Error {
  const [value = '', another] = rawValuesOf('authorization', rawHeaders);
  if (another !== undefined) {
    return INVALID_API_KEY;
  }
  // Blanks and tabs around a value are no part of it (RFC 9110 section 5.5); Node's parser has taken them off. Another scheme, or
  // the scheme without a token, is a request without credentials of ours.
  const match = BEARER.exec(value);
  return match === null ? MISSING_API_KEY : (match[1] ?? INVALID_API_KEY);
}
