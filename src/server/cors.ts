import type { IncomingMessage, ServerResponse } from 'node:http';
import cors from 'cors';
import { type HeaderPair, REQUEST_ID_HEADER } from '../http/request-context.js';
import { API_SECURITY_HEADERS } from '../http/response.js';
import { RATE_LIMIT_HEADER_NAMES } from '../rate-limit/headers.js';

const PREFLIGHT_MAX_AGE_SECONDS = 600;

/** Whether a request is a CORS preflight of the Fetch standard, which carries no key. */
export function isPreflight({ method, headers }: IncomingMessage): boolean {
  return method === 'OPTIONS' && headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
}

/** Lets web pages of some origins, perhaps of none, call the API and read its headers. */
export class Cors {
  readonly #handle: (req: IncomingMessage, res: ServerResponse, next: () => void) => void;

  constructor(origins: readonly string[]) {
    this.#handle = cors({
      // Without an origin there are no CORS headers, also none in a response to a preflight.
      origin: origins.length > 0 && [...origins],
      methods: ['GET', 'HEAD', 'DELETE'],
      allowedHeaders: ['Authorization', 'If-None-Match', REQUEST_ID_HEADER],
      exposedHeaders: [...RATE_LIMIT_HEADER_NAMES, 'ETag', REQUEST_ID_HEADER, 'WWW-Authenticate'],
      maxAge: PREFLIGHT_MAX_AGE_SECONDS,
    });
  }

  /** Call before everything else: a page must be able to read a rejection, too. */
  addHeaders(req: IncomingMessage, res: ServerResponse): void {
    if (req.method !== 'OPTIONS') {
      this.#handle(req, res, () => undefined);
    }
  }

  respondToPreflight(req: IncomingMessage, res: ServerResponse, limits: readonly HeaderPair[]): void {
    for (const [name, value] of [...limits, ...API_SECURITY_HEADERS]) {
      res.setHeader(name, value);
    }
    this.#handle(req, res, () => {
      res.writeHead(204).end();
    });
  }
}
