import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ArgumentsHost, Catch, type ExceptionFilter, Logger, NotFoundException } from '@nestjs/common';
import { logBackgroundError } from '../common/in-background.js';
import { DomainError } from '../errors/domain-error.js';
import { RequestContext } from '../http/request-context.js';
import { abortResponse, sendError } from '../http/response.js';

/** Writes the error responses other than early rejections, in the one error shape. Logs 500 and 503 once. */
@Catch()
export class AllExceptionsFilter implements ExceptionFilter {
  readonly #logger = new Logger('Errors');

  catch(exception: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    this.respond(exception, http.getRequest<IncomingMessage>(), http.getResponse<ServerResponse>());
  }

  /** Ends a request with an error. Never throws: nothing is left that could handle it. */
  respond(exception: unknown, req: IncomingMessage, res: ServerResponse): void {
    const error = toDomainError(exception);
    try {
      if (res.headersSent) {
        abortResponse(res);
      } else {
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

  #log({ code, message, cause }: DomainError, req: IncomingMessage): void {
    const fields = { requestId: RequestContext.of(req)?.id, method: req.method };
    if (code === 'internal_error') {
      this.#logger.error('request failed', { ...fields, detail: cause instanceof Error ? cause.stack : String(cause) });
    } else if (code === 'service_unavailable') {
      this.#logger.warn('service unavailable', { ...fields, detail: cause instanceof Error ? cause.message : message });
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
