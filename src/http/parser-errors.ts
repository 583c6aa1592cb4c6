import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ErrorCode } from '../errors/error-codes.js';
import { ERROR_MESSAGES } from '../errors/error-messages.js';
import type { AdmissionService } from '../rate-limit/admission.service.js';
import { rateLimitHeaders } from '../rate-limit/headers.js';
import { refusalByLimits } from '../rate-limit/refusal.js';
import { allEnded } from './connections.js';
import { endConnection, rawErrorAnswer } from './raw-answer.js';

/**
 * Answers what Node's HTTP parser refuses, which by default gets a bare status line. Such a request has no identity, so
 * it is counted against the address of the connection, and carries that address's limit headers.
 * @param underWay answers to earlier requests on this connection, which come first (RFC 9112 section 9.3.2)
 */
export async function answerParserError(
  error: NodeJS.ErrnoException,
  socket: Socket,
  admission: AdmissionService,
  underWay: readonly ServerResponse[] = [],
): Promise<void> {
  await allEnded(underWay);
  const hasNeverSpoken = error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && socket.bytesRead === 0;
  if (hasNeverSpoken || error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  if (belongsToAnswered(error, underWay.at(-1))) {
    endConnection(socket);
    return;
  }
  const [code, message] = answerTo(error);
  const admitted = await admission.admitAddress(socket.remoteAddress ?? 'unknown');
  const refusal = refusalByLimits(admitted);
  const answer = rawErrorAnswer(refusal?.code ?? code, refusal?.message ?? message, rateLimitHeaders(admitted.verdict));
  endConnection(socket, answer);
}

/** The malformed part was the body of a request that has had its answer, or came after what the client called its last. */
function belongsToAnswered(error: NodeJS.ErrnoException, last: ServerResponse | undefined): boolean {
  return error.code === 'HPE_CLOSED_CONNECTION' || (last !== undefined && !last.req.complete);
}

function answerTo(error: NodeJS.ErrnoException): [ErrorCode, string] {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return ['request_header_fields_too_large', ERROR_MESSAGES.request_header_fields_too_large];
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return ['request_timeout', ERROR_MESSAGES.request_timeout];
    default:
      return ['bad_request', 'The request is not well-formed HTTP.'];
  }
}
