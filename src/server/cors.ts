import type { IncomingMessage, ServerResponse } from 'node:http';
import cors from 'cors';
import { REQUEST_ID_HEADER } from '../http/response.js';
import { RATE_LIMIT_HEADER_NAMES } from '../rate-limit/headers.js';

const PREFLIGHT_MAX_AGE_SECONDS = 600;

export type CorsHandler = (req: IncomingMessage, res: ServerResponse, next: () => void) => void;

/**
 * Lets web pages of these origins call the API and read its headers. It runs before everything else: a page must be able
 * to read a rejection, too.
 * @returns undefined without origins: no page of another origin may call the API
 */
export function corsFor(origins: readonly string[]): CorsHandler | undefined {
  if (origins.length === 0) {
    return undefined;
  }
  return cors({
    origin: [...origins],
    methods: ['GET', 'HEAD', 'DELETE'],
    allowedHeaders: ['Authorization', 'If-None-Match', REQUEST_ID_HEADER],
    exposedHeaders: [...RATE_LIMIT_HEADER_NAMES, 'ETag', REQUEST_ID_HEADER, 'WWW-Authenticate'],
    maxAge: PREFLIGHT_MAX_AGE_SECONDS,
  });
}
