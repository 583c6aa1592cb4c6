import type { IncomingMessage, ServerResponse } from 'node:http';
import cors from 'cors';
import { API_SECURITY_HEADERS, REQUEST_ID_HEADER } from '../http/response.js';
import type { HeaderPair } from '../http/request-context.js';
import { RATE_LIMIT_HEADER_NAMES } from '../rate-limit/headers.js';

const PREFLIGHT_MAX_AGE_SECONDS = 600;

type CorsHandler = (req: IncomingMessage, res: ServerResponse, next: () => void) => void;

/** Whether a request is a CORS preflight of the Fetch standard, which carries no key. */
export function isPreflight({ method, headers }: IncomingMessage): boolean {
  return method === 'OPTIONS' && headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
}

/** Lets web pages of some origins call the API and read its headers. */
export class Cors {
  /** Undefined when no page of another origin may call the API. */
  readonly #handle: CorsHandler | undefined;

  constructor(origins: readonly string[]) {
    if (origins.length > 0) {
      this.#handle = cors({
        origin: [...origins],
        methods: ['GET', 'HEAD', 'DELETE'],
        allowedHeaders: ['Authorization', 'If-None-Match', REQUEST_ID_HEADER],
        exposedHeaders: [...RATE_LIMIT_HEADER_NAMES, 'ETag', REQUEST_ID_HEADER, 'WWW-Authenticate'],
        maxAge: PREFLIGHT_MAX_AGE_SECONDS,
      });
    }
  }

  /** Call before everything else: a page must be able to read a rejection, too. */
  addHeaders(req: IncomingMessage, res: ServerResponse): void {
    if (req.method !== 'OPTIONS') {
      this.#handle?.(req, res, () => undefined);
    }
  }

  respondToPreflight(req: IncomingMessage, res: ServerResponse, limits: readonly HeaderPair[]): void {
    for (const [name, value] of [...limits, ...API_SECURITY_HEADERS]) {
      res.setHeader(name, value);
    }
    if (this.#handle === undefined) {
      // Without CORS headers the browser sends nothing.
      res.writeHead(204).end();
    } else {
      this.#handle(req, res, () => undefined);
    }
  }
}
