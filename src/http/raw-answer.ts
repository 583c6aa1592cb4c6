import { type ServerResponse, STATUS_CODES } from 'node:http';
import { errorBodyJson } from '../errors/error-body.js';
import { ERROR_STATUS, type ErrorCode } from '../errors/error-codes.js';
import { headersOfError, type HeaderPair } from '../errors/error-headers.js';
import { API_SECURITY_HEADERS } from './security-headers.js';

/** All headers of an error answer but those that Node adds itself. */
export function errorHeaders(code: ErrorCode, body: string, more: readonly HeaderPair[]): HeaderPair[] {
  return [
    ['Content-Type', 'application/json'],
    ['Content-Length', String(Buffer.byteLength(body))],
    ['Cache-Control', 'no-store'],
    ...API_SECURITY_HEADERS,
    ...headersOfError(code),
    ...more,
  ];
}

/** Writes a whole error answer at once, without Express. A HEAD request gets the headers alone. */
export function answerError(
  res: ServerResponse,
  code: ErrorCode,
  message: string,
  more: readonly HeaderPair[] = [],
): void {
  const body = errorBodyJson(code, message);
  for (const [name, value] of errorHeaders(code, body, more)) {
    res.setHeader(name, value);
  }
  res.statusCode = ERROR_STATUS[code];
  res.end(body);
}

/** An error answer as the bytes of an HTTP/1.1 message, for a socket whose request never became one. Closes the connection. */
export function rawErrorAnswer(code: ErrorCode, message: string, more: readonly HeaderPair[]): string {
  const body = errorBodyJson(code, message);
  const status = ERROR_STATUS[code];
  const headers: HeaderPair[] = [
    ['Date', new Date().toUTCString()],
    ['Connection', 'close'],
    ...errorHeaders(code, body, more),
  ];
  const head = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${head}\r\n${body}`;
}
