import { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { AdmissionService } from '../admission/admission.service.js';
import { MISSING_API_KEY } from '../admission/rejection.js';
import { DomainError, type ErrorCode } from '../errors/domain-error.js';
import { RequestContext } from '../http/request-context.js';
import type { Connections } from './connections.js';
import type { AllExceptionsFilter } from './exception.filter.js';
import type { RequestObserver } from './request-observer.js';

/** The codes of the errors that have one of their own. */
const CODES: Readonly<Record<string, ErrorCode>> = {
  HPE_HEADER_OVERFLOW: 'request_header_fields_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

/** Responds to what never becomes a request: input that Node's HTTP parser rejects. */
export class ParserErrors {
  constructor(
    private readonly connections: Connections,
    private readonly admission: AdmissionService,
    private readonly observer: RequestObserver,
    private readonly errors: AllExceptionsFilter,
  ) {}

  /**
   * Responds in the error shape, where Node would send a bare status line. Such a request has no identity, so it is
   * counted against the address of the connection. Earlier requests get their responses first (RFC 9112 section 9.3.2).
   */
  async respond(error: NodeJS.ErrnoException, socket: Socket): Promise<void> {
    const isTimeout = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
    if (this.connections.ignores(socket, isTimeout)) {
      return;
    }
    const hasSentNothing = isTimeout && socket.bytesRead === 0;
    if (hasSentNothing || error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy();
      return;
    }
    // Such a request has its own response.
    const isInBody = await this.connections.stopReceiving(socket);
    if (socket.writableEnded || socket.destroyed) {
      return;
    }
    // Input after a request with `Connection: close` gets none, and a socket that the client has reset has no address.
    if (!isInBody && error.code !== 'HPE_CLOSED_CONNECTION' && socket.remoteAddress !== undefined) {
      await this.#send(error, socket);
    }
    socket.destroySoon();
  }

  async #send(error: NodeJS.ErrnoException, socket: Socket): Promise<void> {
    const req = new IncomingMessage(socket);
    const res = new ServerResponse(req);
    res.shouldKeepAlive = false;
    res.assignSocket(socket);
    const context = new RequestContext(req);
    res.once('finish', () => {
      this.observer.ended(res, context);
    });
    const rejection = await this.admission.admit(req, context);
    // The key, if there is one, could not be read.
    this.errors.respond(
      rejection === MISSING_API_KEY ? new DomainError(CODES[error.code ?? ''] ?? 'bad_request') : rejection,
      req,
      res,
    );
  }
}
