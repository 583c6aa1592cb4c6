/** The content of a request's `Authorization` header. */
export type Bearer =
  { readonly kind: 'missing' } | { readonly kind: 'malformed' } | { readonly kind: 'token'; readonly token: string };

const MISSING: Bearer = { kind: 'missing' };
const MALFORMED: Bearer = { kind: 'malformed' };

/** `b64token` of RFC 6750 section 2.1; the scheme is case-insensitive (RFC 9110 section 11.1). */
const BEARER = /^bearer +([A-Za-z0-9\-._~+/]+=*)$/i;
const BEARER_SCHEME = /^bearer /i;

const AUTHORIZATION = 'authorization';

/**
 * Reads the bearer token from a request's raw headers (name, value, name, value, …). Two `Authorization` headers are
 * malformed, because Node keeps the first and a proxy may have used the last.
 */
export function readBearer(rawHeaders: readonly string[]): Bearer {
  let value: string | undefined;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index];
    if (name?.length !== AUTHORIZATION.length || name.toLowerCase() !== AUTHORIZATION) {
      continue;
    }
    if (value !== undefined) {
      return MALFORMED;
    }
    value = rawHeaders[index + 1];
  }
  // Blanks and tabs around a value are no part of it (RFC 9110 section 5.5); Node's parser has taken them off.
  return value === undefined ? MISSING : parseAuthorization(value);
}

function parseAuthorization(value: string): Bearer {
  const token = BEARER.exec(value)?.[1];
  if (token !== undefined) {
    return { kind: 'token', token };
  }
  // Another scheme, or the scheme without a token, is a request without credentials of ours.
  return BEARER_SCHEME.test(value) ? MALFORMED : MISSING;
}
