import type { Socket } from 'node:net';
import type { ErrorCode } from '../errors/error-codes.js';
import type { AdmissionService } from '../rate-limit/admission.service.js';
import { rateLimitHeaders } from '../rate-limit/headers.js';
import { refusalByLimits } from '../rate-limit/refusal.js';
import { rawErrorAnswer } from './raw-answer.js';

/** How long a refused connection may linger so that the client can read its answer. Milliseconds. */
const LINGER_MS = 1_000;

/**
 * Answers what Node's HTTP parser refuses, which by default gets a bare status line. Such a request has no identity, so
 * it is counted against the address of the connection, and carries that address's limit headers.
 */
export async function answerParserError(
  error: NodeJS.ErrnoException,
  socket: Socket,
  admission: AdmissionService,
): Promise<void> {
  const neverSpoke = error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && socket.bytesRead === 0;
  if (neverSpoke || error.code === 'ECONNRESET' || !socket.writable || hasAnswerUnderWay(socket)) {
    socket.destroy();
    return;
  }
  const [code, message] = answerTo(error);
  const admitted = await admission.admitAddress(socket.remoteAddress ?? 'unknown');
  const refusal = refusalByLimits(admitted);
  socket.end(rawErrorAnswer(refusal?.code ?? code, refusal?.message ?? message, rateLimitHeaders(admitted.verdict)));
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}

/** Writing into an answer that has begun would corrupt it; such a connection can only be cut. */
function hasAnswerUnderWay(socket: object): boolean {
  const { _httpMessage: response } = socket as { _httpMessage?: { headersSent: boolean } | null };
  return response?.headersSent === true;
}

function answerTo(error: NodeJS.ErrnoException): [ErrorCode, string] {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return ['request_header_fields_too_large', 'The request line and headers are larger than 16 KiB.'];
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return ['request_timeout', 'The request did not arrive in time.'];
    default:
      return ['bad_request', 'The request is not valid HTTP/1.1.'];
  }
}
