import { type ArgumentsHost, Catch, type ExceptionFilter, Logger, NotFoundException } from '@nestjs/common';
import type { Request, Response } from 'express';
import { logBackgroundError } from './common/in-background.js';
import { databaseMessageOf } from './database/postgres-errors.js';
import { DomainError } from './errors/domain-error.js';
import { isApiPath } from './http/paths.js';
import { abortResponse, sendError } from './http/response.js';
import { LIMIT_HEADER_NAMES } from './rate-limit/headers.js';
import { RateLimiter } from './rate-limit/rate-limiter.js';

/** A key that cannot be verified may be invented, and such requests have no limit: one of their errors is logged in this time. Milliseconds. */
const UNVERIFIED_LOG_MS = 1_000;

/** Writes every error response, in the one error shape. Logs 500 and 503 once. */
@Catch()
export class AllExceptionsFilter implements ExceptionFilter {
  readonly #logger = new Logger('Errors');
  #unverifiedLoggedAtMs = -Infinity;

  constructor(private readonly limiter: RateLimiter) {}

  /** Ends a request with an error. Never throws: nothing is left that could handle it. */
  catch(exception: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    const [req, res] = [http.getRequest<Request>(), http.getResponse<Response>()];
    const error = toDomainError(exception);
    try {
      if (res.headersSent) {
        abortResponse(res);
      } else {
        if (isApiPath(req.path) && !res.hasHeader(LIMIT_HEADER_NAMES[0])) {
          // No guard has counted it.
          this.limiter.setFullQuotaHeaders(res);
        }
        sendError(res, error);
      }
      this.#log(error, req);
    } catch (failure) {
      logBackgroundError(failure);
      logBackgroundError(exception);
      if (!res.writableEnded) {
        abortResponse(res);
      }
    }
  }

  #log({ code, message, cause }: DomainError, req: Request): void {
    const fields = { requestId: req.id, method: req.method };
    if (code === 'internal_error') {
      this.#logger.error('request failed', { ...fields, detail: cause instanceof Error ? cause.stack : String(cause) });
    } else if (code === 'service_unavailable') {
      if (req.caller === undefined) {
        const nowMs = performance.now();
        if (nowMs - this.#unverifiedLoggedAtMs < UNVERIFIED_LOG_MS) {
          return;
        }
        this.#unverifiedLoggedAtMs = nowMs;
      }
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
