import type { ErrorCode } from './error-codes.js';

export type HeaderPair = readonly [name: string, value: string];

const REALM = 'Bearer realm="petstore"';

/** How long a client should wait before it asks a service again that was briefly unavailable. Seconds. */
const UNAVAILABLE_RETRY_AFTER_SECONDS = 1;

/**
 * The headers that belong to an error code whoever raises it. RFC 6750 section 3 rules `WWW-Authenticate`: no error code
 * when no credentials were sent, `invalid_token` when they were not good. RFC 9110 section 10.2.3 rules `Retry-After`.
 */
export function headersOfError(code: ErrorCode): readonly HeaderPair[] {
  switch (code) {
    case 'missing_api_key':
      return MISSING_KEY_HEADERS;
    case 'invalid_api_key':
      return INVALID_KEY_HEADERS;
    case 'service_unavailable':
      return UNAVAILABLE_HEADERS;
    default:
      return NO_HEADERS;
  }
}

const NO_HEADERS: readonly HeaderPair[] = [];
const MISSING_KEY_HEADERS: readonly HeaderPair[] = [['WWW-Authenticate', REALM]];
const INVALID_KEY_HEADERS: readonly HeaderPair[] = [['WWW-Authenticate', `${REALM}, error="invalid_token"`]];
const UNAVAILABLE_HEADERS: readonly HeaderPair[] = [['Retry-After', String(UNAVAILABLE_RETRY_AFTER_SECONDS)]];
