import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ArgumentsHost, Catch, type ExceptionFilter, HttpException, Inject } from '@nestjs/common';
import type { Logger } from 'pino';
import { AdmissionService } from '../admission/admission.service.js';
import { DomainError } from '../errors/domain-error.js';
import { isApiPath } from '../http/api-path.js';
import { abortResponse, sendError } from '../http/response.js';
import { REQUEST_LOGGER } from '../logging/pino-logger.js';

type Request = IncomingMessage & { originalUrl?: string };

/** Writes every error response of Nest and Express in the one error shape, and logs errors of the service once. */
@Catch()
export class AllExceptionsFilter implements ExceptionFilter {
  constructor(
    private readonly admission: AdmissionService,
    @Inject(REQUEST_LOGGER) private readonly logger: Logger,
  ) {}

  async catch(exception: unknown, host: ArgumentsHost): Promise<void> {
    const http = host.switchToHttp();
    const req = http.getRequest<Request>();
    const res = http.getResponse<ServerResponse>();
    const error = (await this.#rejectionBeforeRouting(req, res)) ?? toDomainError(exception);
    this.#log(error, req);
    if (res.headersSent) {
      abortResponse(res);
      return;
    }
    sendError(res, error.code, error.message);
  }

  /** An error that was raised before routing has not passed the guards. After them the cached decision is no rejection. */
  async #rejectionBeforeRouting(req: Request, res: ServerResponse): Promise<DomainError | undefined> {
    if (res.headersSent || !isApiPath(req.originalUrl ?? req.url ?? '')) {
      return undefined;
    }
    const rejection = await this.admission.check(req, res);
    return rejection === undefined ? undefined : toDomainError(rejection.error);
  }

  #log({ code, message, cause }: DomainError, req: Request): void {
    const fields = { context: 'Errors', requestId: req.headers['x-request-id'], method: req.method };
    if (code === 'internal_error') {
      this.logger.error({ ...fields, detail: cause instanceof Error ? cause.stack : String(cause) }, 'request failed');
    } else if (code === 'service_unavailable') {
      this.logger.warn({ ...fields, detail: cause instanceof Error ? cause.message : message }, 'service unavailable');
    }
  }
}

function toDomainError(exception: unknown): DomainError {
  if (exception instanceof DomainError) {
    return exception;
  }
  if (exception instanceof HttpException && exception.getStatus() < 500) {
    return exception.getStatus() === 404
      ? DomainError.of('route_not_found', { cause: exception })
      : new DomainError('bad_request', 'The request cannot be understood.', { cause: exception });
  }
  return DomainError.of('internal_error', { cause: exception });
}
