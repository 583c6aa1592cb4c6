import { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Request, Response } from 'express';
import { DomainError, type ErrorCode } from '../errors/domain-error.js';
import type { Connections } from './connections.js';
import type { RequestObserver } from './request-observer.js';
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
 */
export function respondToParserErrors(connections: Connections, { observe }: RequestObserver) {
  return (error: NodeJS.ErrnoException, socket: Socket): void => {
    // Input after the last request of a connection, or after this response, gets none, and what is being sent goes on.
    if (socket.writableEnded || error.code === 'HPE_CLOSED_CONNECTION') {
      return;
    }
    const hasSentNothing = error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && socket.bytesRead === 0;
    if (hasSentNothing || !socket.writable || connections.isBusy(socket)) {
      socket.destroy();
      return;
    }
    // What Express would set, without a request target; the method is that of the OpenTelemetry conventions for an unknown one.
    const req = Object.assign(new IncomingMessage(socket), { method: '_OTHER', originalUrl: '', baseUrl: '' });
    const res = new ServerResponse(req);
    res.assignSocket(socket);
    observe(req as Request, res as Response, () => undefined);
    res.setHeader('Connection', 'close');
    // Node does so for a request only.
    res.once('finish', () => res.emit('close'));
    sendError(res, new DomainError(CODES[error.code ?? ''] ?? 'bad_request'));
    socket.end();
    setTimeout(() => socket.destroy(), LINGER_MS).unref();
  };
}
