import type { HeaderPair } from '../errors/error-headers.js';

/**
 * Headers of every answer that is not a page: nothing may be sniffed, framed or loaded from a JSON document (OWASP REST
 * Security Cheat Sheet). The documentation pages carry a policy of their own.
 */
export const API_SECURITY_HEADERS: readonly HeaderPair[] = [
  ['X-Content-Type-Options', 'nosniff'],
  ['Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'"],
];
