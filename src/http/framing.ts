import type { IncomingMessage } from 'node:http';
import type { NextFunction, Request, Response } from 'express';
import { DomainError } from '../errors/domain-error.js';
import type { Connections } from './connections.js';
import { originForm } from './paths.js';

/** `uri-host [ ":" port ]` (RFC 9110 section 7.2); the inside of an IP literal's brackets is not validated. */
const WELL_FORMED_HOST = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9\-._~!$&'()*+,;=%]*)(?::\d*)?$/;

/** The default of Apache httpd. Each header takes more than 100 bytes of memory, however small it is. */
export const HEADERS_MAX = 100;

/** @returns the framing error of a request that Node's parser accepts; undefined when there is none */
export function framingError({ headers, rawHeaders, httpVersion }: IncomingMessage): DomainError | undefined {
  // Names and values alternate.
  if (rawHeaders.length > 2 * HEADERS_MAX) {
    return new DomainError('request_header_fields_too_large');
  }
  // Node's parser also accepts HTTP/0.9 and HTTP/2.0, and does not read them as HTTP/1.1.
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    return new DomainError('bad_request', 'The version must be HTTP/1.1 or HTTP/1.0.');
  }
  // RFC 9112 section 3.2: exactly one Host header in HTTP/1.1, at most one in HTTP/1.0. Several are joined by a comma and a space.
  const { host } = headers;
  const isValid = host === undefined ? httpVersion === '1.0' : WELL_FORMED_HOST.test(host);
  if (!isValid) {
    return new DomainError('bad_request', 'The request must have exactly one valid Host header.');
  }
  const coding = headers['transfer-encoding'];
  // RFC 9112 section 6.1: with a coding that does not end in chunked, or any coding in HTTP/1.0, the end of the request is
  // ambiguous.
  return coding === undefined || (coding.toLowerCase() === 'chunked' && httpVersion === '1.1')
    ? undefined
    : new DomainError('bad_request', 'Transfer-Encoding must be chunked, and requires HTTP/1.1.');
}

/** Rejects requests whose end or target is ambiguous. The connection ends with the response, and nothing behind it is executed. */
export function rejectMalformed(connections: Connections) {
  return (req: Request, res: Response, next: NextFunction): void => {
    const error =
      originForm(req.originalUrl) === undefined
        ? new DomainError('bad_request', 'The request target is not a valid URL.')
        : framingError(req);
    if (error !== undefined) {
      connections.endAfter(res);
    }
    next(error);
  };
}
