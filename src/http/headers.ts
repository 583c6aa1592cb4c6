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
