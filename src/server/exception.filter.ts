import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ArgumentsHost, Catch, type ExceptionFilter, HttpException, Logger } from '@nestjs/common';
import { isApiPath } from '../http/api-path.js';
import { sendError } from '../http/response.js';
import { AdmissionService } from '../admission/admission.service.js';
import { DomainError } from '../errors/domain-error.js';

type Request = IncomingMessage & { originalUrl?: string };

/** Writes every error answer that Nest and Express give, in the one shape, and logs what is our own fault once. */
@Catch()
export class AllExceptionsFilter implements ExceptionFilter {
  readonly #logger = new Logger('Errors');

  constructor(private readonly admission: AdmissionService) {}

  async catch(exception: unknown, host: ArgumentsHost): Promise<void> {
    const http = host.switchToHttp();
    const req = http.getRequest<Request>();
    const res = http.getResponse<ServerResponse>();
    const error = (await this.#refusalMissedByGuards(req, res)) ?? toDomainError(exception);
    this.#log(error, req);
    if (res.headersSent) {
      // Ending the response would make a part look like the whole; a cut connection cannot be mistaken.
      res.destroy();
      return;
    }
    sendError(res, error.code, error.message);
  }

  /** Errors raised before any route matched have not met the guards; limits and key come first. For others this changes nothing. */
  async #refusalMissedByGuards(req: Request, res: ServerResponse): Promise<DomainError | undefined> {
    if (res.headersSent || !isApiPath(req.originalUrl ?? req.url ?? '')) {
      return undefined;
    }
    const rejection = await this.admission.check(req, res);
    return rejection === undefined ? undefined : toDomainError(rejection.error);
  }

  #log(error: DomainError, req: Request): void {
    if (error.code === 'internal_error') {
      this.#logger.error(
        `${req.method ?? ''} failed`,
        error.cause instanceof Error ? error.cause.stack : String(error.cause),
      );
    } else if (error.code === 'service_unavailable') {
      this.#logger.warn(`unavailable: ${error.cause instanceof Error ? error.cause.message : error.message}`);
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
