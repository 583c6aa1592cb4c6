import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type DomainError, ERRORS } from '../errors/domain-error.js';
import { type HeaderPair, RequestContext } from './request-context.js';

/**
 * Headers of every response that is not a page: nothing may be sniffed, framed or loaded from a JSON document (OWASP REST
 * Security Cheat Sheet). The documentation pages carry their own policy.
 */
export const API_SECURITY_HEADERS: readonly HeaderPair[] = [
  ['X-Content-Type-Options', 'nosniff'],
  ['Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'"],
];

export const NO_STORE_HEADERS: readonly HeaderPair[] = [['Cache-Control', 'no-store'], ...API_SECURITY_HEADERS];

/** Writes the status line and headers: those that were deferred first, then these. */
export function writeHead(res: ServerResponse, status: number, headers: readonly HeaderPair[]): void {
  const all: string[] = [];
  for (const [name, value] of [...(RequestContext.of(res.req)?.headers ?? []), ...headers]) {
    all.push(name, value);
  }
  res.writeHead(status, all);
}

/** Responds with 204. */
export function sendNoContent(res: ServerResponse): void {
  writeHead(res, 204, NO_STORE_HEADERS);
  res.end();
}

/** An error response without its per-request headers, so that it can be built once and written often. */
export interface ErrorResponse {
  readonly status: number;
  readonly headers: readonly HeaderPair[];
  readonly body: string;
}

export function errorResponse({ code, message }: DomainError): ErrorResponse {
  const { status, headers = {} } = ERRORS[code];
  // With the keys in the published order.
  const body = JSON.stringify({ code, message, status });
  return {
    status,
    headers: [
      ['Content-Type', 'application/json'],
      ['Content-Length', String(Buffer.byteLength(body))],
      ...NO_STORE_HEADERS,
      ...Object.entries(headers),
    ],
    body,
  };
}

export function writeErrorResponse(res: ServerResponse, { status, headers, body }: ErrorResponse): void {
  writeHead(res, status, headers);
  res.end(body);
}

/** Responds with an error; Node leaves the body out of a response to HEAD. */
export function sendError(res: ServerResponse, error: DomainError): void {
  writeErrorResponse(res, errorResponse(error));
}

/**
 * Closes the connection of a response that cannot be completed: ended normally, it would look complete. The response stays
 * unfinished (`writableFinished` is false), which is how observers recognise it. Pipelined responses before it are sent.
 */
export function abortResponse(res: ServerResponse): void {
  if (res.socket === null) {
    // A response behind another one. `destroy` leaves its connection open from Node 24 on.
    res.once('socket', (socket: Socket) => socket.destroy());
  } else {
    breakConnection(res.req);
  }
  res.destroy();
}

/** Closes a connection during a response; in HTTP/1.0 by a reset, because a regular close may mark the end of the body. */
export function breakConnection({ httpVersionMinor, socket }: IncomingMessage): void {
  socket[httpVersionMinor === 0 ? 'resetAndDestroy' : 'destroy']();
}
