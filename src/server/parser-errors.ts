import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { AdmissionService } from '../admission/admission.service.js';
import { MISSING_API_KEY, Rejection } from '../admission/rejection.js';
import { logBackgroundError } from '../common/in-background.js';
import { DomainError } from '../errors/domain-error.js';
import { type HeaderPair, RequestContext } from '../http/request-context.js';
import { type ErrorResponse, errorResponse, REQUEST_ID_HEADER } from '../http/response.js';
import { type Connections, endConnection } from './connections.js';
import type { RequestObserver } from './request-observer.js';

/** Responds to what never becomes a request: input that Node's HTTP parser rejects. */
export class ParserErrors {
  constructor(
    private readonly connections: Connections,
    private readonly admission: AdmissionService,
    private readonly observer: RequestObserver,
  ) {}

  /**
   * Responds in the error shape, where Node would send a bare status line. Such a request has no identity, so it is
   * counted against the address of the connection. Earlier requests get their responses first (RFC 9112 section 9.3.2).
   */
  async respond(error: NodeJS.ErrnoException, socket: Socket): Promise<void> {
    if (this.connections.isClosing(socket)) {
      // It is ended by its last response, which its client may still be reading.
      return;
    }
    const hasSentNothing = error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && socket.bytesRead === 0;
    if (hasSentNothing || error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy();
      return;
    }
    // The body of a request that has its own response, or input after a request with `Connection: close`.
    const needsNoResponse = this.connections.isReceivingBody(socket) || error.code === 'HPE_CLOSED_CONNECTION';
    // Read now: a socket that the client resets in the meantime has no address.
    const address = socket.remoteAddress;
    this.connections.stopReceiving(socket);
    await this.connections.pendingResponsesEnd(socket);
    if (socket.writableEnded) {
      return;
    }
    if (needsNoResponse || address === undefined) {
      endConnection(socket);
      return;
    }
    const context = new RequestContext();
    const rejection = await this.admission.admitAddress(address, context);
    if (rejection !== undefined && !(rejection instanceof Rejection)) {
      logBackgroundError(rejection);
    }
    // Only limits reject: the key, if there is one, could not be read.
    const isLimited = rejection instanceof Rejection && rejection !== MISSING_API_KEY;
    this.#send(socket, context, isLimited ? rejection.response : errorResponse(toDomainError(error)));
  }

  #send(socket: Socket, context: RequestContext, { status, headers: own, body }: ErrorResponse): void {
    if (!socket.writable) {
      socket.destroy();
      return;
    }
    const headers: HeaderPair[] = [
      ['Date', new Date().toUTCString()],
      ['Connection', 'close'],
      [REQUEST_ID_HEADER, context.id],
      ...own,
      ...context.headers,
    ];
    const head = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
    endConnection(socket, `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${head}\r\n${body}`);
    this.observer.record(context, status, false);
  }
}

function toDomainError({ code }: NodeJS.ErrnoException): DomainError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new DomainError('request_header_fields_too_large');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new DomainError('request_timeout');
    default:
      return new DomainError('bad_request');
  }
}
