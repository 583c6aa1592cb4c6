import { randomUUID } from 'node:crypto';

export type HeaderPair = readonly [name: string, value: string];

/**
 * Headers of every response that is not a page: nothing may be sniffed, framed or loaded from a JSON document (OWASP REST
 * Security Cheat Sheet). The documentation pages carry their own policy.
 */
export const API_SECURITY_HEADERS: readonly HeaderPair[] = [
  ['X-Content-Type-Options', 'nosniff'],
  ['Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'"],
];

export const NO_STORE_HEADERS: readonly HeaderPair[] = [['Cache-Control', 'no-store'], ...API_SECURITY_HEADERS];

export const REQUEST_ID_HEADER = 'X-Request-Id';

/** Safe in a log line and in a header, long enough for any common scheme, and no API key. */
const WELL_FORMED_REQUEST_ID = /^(?!.*pst_)[A-Za-z0-9._-]{1,64}$/;

/** The client's own request id when it is well-formed, a new one otherwise. */
export function requestIdFrom(header: string | string[] | undefined): string {
  return typeof header === 'string' && WELL_FORMED_REQUEST_ID.test(header) ? header : randomUUID();
}
