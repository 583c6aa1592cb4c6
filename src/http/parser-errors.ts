import { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { DomainError, type ErrorCode } from '../errors/domain-error.js';
import type { Connections } from './connections.js';
import { sendError } from './response.js';

/** The codes of Node's errors that have one of their own. */
const CODES: Readonly<Record<string, ErrorCode>> = {
  HPE_HEADER_OVERFLOW: 'request_header_fields_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

/** How long a client may take to read the response: input that nobody reads resets a closed connection. Milliseconds. */
const LINGER_MS = 1_000;

/**
 * Handles `clientError` of the HTTP server: input that its parser rejects, or that did not arrive in time. It never becomes a request,
 * so it counts against nobody, and Node would respond without a body.
 * @param begin called with the response before it is written
 */
export function respondToParserError(
  error: NodeJS.ErrnoException,
  socket: Socket,
  connections: Connections,
  begin: (req: IncomingMessage, res: ServerResponse) => void,
): void {
  // Input after a request with `Connection: close` gets no response, and the pending one is sent.
  if (socket.writableEnded || error.code === 'HPE_CLOSED_CONNECTION') {
    return;
  }
  const hasSentNothing = error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && socket.bytesRead === 0;
  if (hasSentNothing || error.code === 'ECONNRESET' || !socket.writable || connections.isBusy(socket)) {
    socket.destroy();
    return;
  }
  // As Express would: there is no request target.
  const req = Object.assign(new IncomingMessage(socket), { originalUrl: '' });
  const res = new ServerResponse(req);
  res.assignSocket(socket);
  begin(req, res);
  res.setHeader('Connection', 'close');
  // Node does so for a request only.
  res.once('finish', () => res.emit('close'));
  sendError(res, new DomainError(CODES[error.code ?? ''] ?? 'bad_request'));
  socket.end();
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}
