import { type ArgumentsHost, Catch, type ExceptionFilter, HttpException, Logger } from '@nestjs/common';
import type { Request, Response } from 'express';
import { databaseMessageOf } from './database/postgres-errors.js';
import { DomainError, type ErrorCode } from './errors/domain-error.js';
import { isApiPath } from './http/paths.js';
import { breakConnection, sendError } from './http/response.js';
import { LIMIT_HEADER_NAMES } from './rate-limit/headers.js';
import { RateLimiter } from './rate-limit/rate-limiter.js';

/** The codes of Nest's own exceptions by status; those of others are `bad_request` below 500, and else `internal_error`. */
const CODES: Readonly<Record<number, ErrorCode>> = {
  404: 'route_not_found',
  405: 'method_not_allowed',
  408: 'request_timeout',
  429: 'rate_limit_exceeded',
  431: 'request_header_fields_too_large',
  503: 'service_unavailable',
};

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
      sendError(res, error, exception instanceof HttpException ? exception.getStatus() : undefined);
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
  const status = exception instanceof HttpException ? exception.getStatus() : 500;
  const code = CODES[status] ?? (status < 500 ? 'bad_request' : 'internal_error');
  // The default message of this code is about malformed HTTP; that of Nest's exceptions is for clients.
  const message = code === 'bad_request' ? (exception as HttpException).message : undefined;
  return new DomainError(code, message, { cause: exception });
}
