import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ErrorCode } from '../errors/error-codes.js';
import type { HeaderPair } from '../http/headers.js';
import { errorResponse } from '../http/response.js';

/** An error answer as the bytes of an HTTP/1.1 message, for a socket whose request never became one. Closes the connection. */
export function rawErrorResponse(code: ErrorCode, message: string, more: readonly HeaderPair[]): string {
  const { status, headers: own, body } = errorResponse(code, message);
  const headers: HeaderPair[] = [['Date', new Date().toUTCString()], ['Connection', 'close'], ...own, ...more];
  const head = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${head}\r\n${body}`;
}

/** How long a refused connection may linger so that the client can read its answer. Milliseconds. */
const LINGER_MS = 1_000;

/** Ends a connection, and cuts it after a while: the other side may neither read nor close. */
export function endConnection(socket: Duplex, farewell = ''): void {
  socket.end(farewell);
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}
