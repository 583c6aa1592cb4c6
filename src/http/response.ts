import type { IncomingMessage, ServerResponse } from 'node:http';
import { type DomainError, ERRORS } from '../errors/domain-error.js';

/**
 * Headers of every response that does not set its own: nothing may be stored, sniffed, framed or loaded from a JSON document (OWASP REST
 * Security Cheat Sheet).
 */
const DEFAULT_HEADERS = Object.entries({
  'Cache-Control': 'no-store',
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
});

export function setDefaultHeaders(res: ServerResponse): void {
  for (const [name, value] of DEFAULT_HEADERS) {
    res.setHeader(name, value);
  }
}

/** Responds with an error; Node leaves the body out of a response to HEAD. @param status that of its code by default */
export function sendError(res: ServerResponse, { code, message }: DomainError, status = ERRORS[code].status): void {
  const { headers = {} } = ERRORS[code];
  // With the keys in the published order.
  const body = JSON.stringify({ code, message, status });
  res.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body), ...headers });
  res.end(body);
}

/**
 * Closes the connection of a response that cannot be completed: ended normally, it would look complete. In HTTP/1.0 by a reset, because a
 * regular close may mark the end of the body.
 */
export function breakConnection({ httpVersionMinor, socket }: IncomingMessage): void {
  socket[httpVersionMinor === 0 ? 'resetAndDestroy' : 'destroy']();
}
