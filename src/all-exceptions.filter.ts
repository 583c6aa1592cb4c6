import { type ArgumentsHost, Catch, type ExceptionFilter, Logger, NotFoundException } from '@nestjs/common';
import type { Request, Response } from 'express';
import { databaseMessageOf } from './database/postgres-errors.js';
import { DomainError } from './errors/domain-error.js';
import { isApiPath } from './http/paths.js';
import { breakConnection, sendError } from './http/response.js';
import { LIMIT_HEADER_NAMES } from './rate-limit/headers.js';
import { RateLimiter } from './rate-limit/rate-limiter.js';

/** Writes every error response, in the one error shape. Logs 500 and 503 once. */
@Catch()
export class AllExceptionsFilter implements ExceptionFilter {
  readonly #logger = new Logger('Errors');

  constructor(private readonly limiter: RateLimiter) {}

  catch(exception: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    const [req, res] = [http.getRequest<Request>(), http.getResponse<Response>()];
    const error = toDomainError(exception);
    // First, so that an error of the log cannot take the place of the response.
    if (!res.headersSent) {
      if (isApiPath(req.path) && !res.hasHeader(LIMIT_HEADER_NAMES[0])) {
        // No guard has counted it.
        this.limiter.setFullQuotaHeaders(res);
      }
      sendError(res, error);
    } else if (!res.writableEnded) {
      breakConnection(req);
    }
    this.#log(error, req);
  }

  #log({ code, message, cause }: DomainError, req: Request): void {
    const fields = { requestId: req.id, method: req.method };
    if (code === 'internal_error') {
      this.#logger.error('request failed', { ...fields, detail: cause instanceof Error ? cause.stack : String(cause) });
    } else if (code === 'service_unavailable') {
      const detail = cause instanceof Error ? databaseMessageOf(cause) : message;
      this.#logger.warn('service unavailable', { ...fields, detail });
    }
  }
}

function toDomainError(exception: unknown): DomainError {
  if (exception instanceof DomainError) {
    return exception;
  }
  // Nest's own, for a path without a route.
  const code = exception instanceof NotFoundException ? 'route_not_found' : 'internal_error';
  return new DomainError(code, undefined, { cause: exception });
}
