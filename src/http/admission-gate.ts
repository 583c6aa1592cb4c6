import type { IncomingMessage, ServerResponse } from 'node:http';
import { DomainError } from '../errors/domain-error.js';
import { isPromise } from '../is-promise.js';
import type { AdmissionService } from '../rate-limit/admission.service.js';
import { rateLimitHeaders } from '../rate-limit/headers.js';
import { refusalByKey, refusalByLimits } from '../rate-limit/refusal.js';
import { isApiPath } from './api-path.js';
import { answerError, keepHeaders } from './answer.js';

/**
 * Refuses in front of Express what is known without waiting to be refused, for a fraction of what the guards cost. It
 * decides nothing itself: it asks the admission service that the guards ask, which remembers the decision for them.
 * @returns whether the request has been answered
 */
export function refuseAtTheGate(req: IncomingMessage, res: ServerResponse, admission: AdmissionService): boolean {
  if (!isApiPath(req.url ?? '')) {
    return false;
  }
  const decided = admission.admit(req);
  if (isPromise(decided)) {
    return false;
  }
  const refusal = refusalByLimits(decided) ?? refusalByKey(decided);
  if (!(refusal instanceof DomainError)) {
    return false;
  }
  keepHeaders(res, rateLimitHeaders(decided.verdict));
  answerError(res, refusal.code, refusal.message);
  return true;
}
