import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { DomainError } from '../errors/domain-error.js';
import type { AdmissionService } from '../admission/admission.service.js';
import { rateLimitHeaders } from '../rate-limit/headers.js';
import { rejectionOf } from '../admission/rejection.js';
import { allClosed } from './connections.js';
import { endConnection, rawErrorResponse } from './raw-response.js';

/**
 * Answers what Node's HTTP parser refuses, which by default gets a bare status line. Such a request has no identity, so
 * it is counted against the address of the connection, and carries that address's limit headers.
 * @param pendingResponses answers to earlier requests on this connection, which come first (RFC 9112 section 9.3.2)
 */
export async function respondToParserError(
  error: NodeJS.ErrnoException,
  socket: Socket,
  admission: AdmissionService,
  pendingResponses: readonly ServerResponse[] = [],
): Promise<void> {
  await allClosed(pendingResponses);
  const hasNeverSpoken = error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && socket.bytesRead === 0;
  if (hasNeverSpoken || error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  if (belongsToAnswered(error, pendingResponses.at(-1))) {
    endConnection(socket);
    return;
  }
  const admitted = await admission.admitAddress(socket.remoteAddress ?? 'unknown');
  const rejection = rejectionOf(admitted);
  // The key is not judged: whatever it was, the request that carried it could not be read.
  const { code, message } =
    rejection?.by === 'limits' && rejection.error instanceof DomainError ? rejection.error : toDomainError(error);
  endConnection(socket, rawErrorResponse(code, message, rateLimitHeaders(admitted.verdict)));
}

/** The malformed part was the body of a request that has had its response, or came after what the client called its last. */
function belongsToAnswered(error: NodeJS.ErrnoException, last: ServerResponse | undefined): boolean {
  return error.code === 'HPE_CLOSED_CONNECTION' || (last !== undefined && !last.req.complete);
}

function toDomainError({ code }: NodeJS.ErrnoException): DomainError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return DomainError.of('request_header_fields_too_large');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return DomainError.of('request_timeout');
    default:
      return new DomainError('bad_request', 'The request is not well-formed HTTP.');
  }
}
