import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Rejection } from '../admission/admission.js';
import type { AdmissionService } from '../admission/admission.service.js';
import { isPromise } from '../common/is-promise.js';
import { DomainError } from '../errors/domain-error.js';
import { isApiPath } from '../http/api-path.js';
import { type ErrorResponse, errorResponse, writeErrorResponse } from '../http/response.js';

/**
 * Rejects a request before Express sees it, for a fraction of what the guards cost. It decides nothing itself: it asks
 * the admission service, which caches the decision for the guards. Admitted requests continue with `next`.
 */
export function rejectEarly(
  req: IncomingMessage,
  res: ServerResponse,
  admission: AdmissionService,
  next: () => void,
): void {
  if (!isApiPath(req.url ?? '')) {
    next();
    return;
  }
  const rejection = admission.check(req, res);
  if (isPromise(rejection)) {
    void rejection.then((settled) => {
      conclude(settled, res, next, immediately);
    });
  } else {
    conclude(rejection, res, next, atEndOfTurn);
  }
}

function conclude(
  rejection: Rejection | undefined,
  res: ServerResponse,
  next: () => void,
  schedule: (task: () => void) => void,
): void {
  const error = rejection?.error;
  if (error instanceof DomainError && error.code !== 'service_unavailable') {
    schedule(() => {
      writeErrorResponse(res, responseTo(error));
    });
  } else {
    next();
  }
}

/** Rejections are a handful of constants, and so are their responses. */
const responses = new WeakMap<DomainError, ErrorResponse>();

function responseTo(error: DomainError): ErrorResponse {
  let response = responses.get(error);
  if (response === undefined) {
    response = errorResponse(error.code, error.message);
    responses.set(error, response);
  }
  return response;
}

function immediately(task: () => void): void {
  task();
}

let tasks: (() => void)[] = [];

/**
 * Runs a task at the end of this turn of the event loop, after all readable sockets have been read. Written one by one
 * between the reads, each response would wake its client, which costs more than the rest of the rejection.
 */
function atEndOfTurn(task: () => void): void {
  if (tasks.push(task) === 1) {
    setImmediate(() => {
      const scheduled = tasks;
      tasks = [];
      for (const each of scheduled) {
        each();
      }
    });
  }
}
