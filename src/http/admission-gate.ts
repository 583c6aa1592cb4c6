import type { IncomingMessage, ServerResponse } from 'node:http';
import { DomainError } from '../errors/domain-error.js';
import { isPromise } from '../is-promise.js';
import type { AdmissionService } from '../rate-limit/admission.service.js';
import type { Admission } from '../rate-limit/caller.js';
import { refusalByKey, refusalByLimits } from '../rate-limit/refusal.js';
import { isApiPath } from './api-path.js';
import { answerError, keepLimitHeaders } from './answer.js';

/**
 * Refuses in front of Express, for a fraction of what the guards cost. It decides nothing itself: it asks the admission
 * service that the guards ask, which remembers the decision for them. A request that is not refused goes on.
 */
export function passGate(
  req: IncomingMessage,
  res: ServerResponse,
  admission: AdmissionService,
  goOn: () => void,
): void {
  if (!isApiPath(req.url ?? '')) {
    goOn();
    return;
  }
  const decided = admission.admit(req);
  const act = (settled: Admission): void => {
    keepLimitHeaders(res, settled.verdict);
    const refusal = refusalByLimits(settled) ?? refusalByKey(settled);
    if (refusal instanceof DomainError && refusal.code !== 'service_unavailable') {
      answerError(res, refusal.code, refusal.message);
    } else {
      goOn();
    }
  };
  if (isPromise(decided)) {
    void decided.then(act);
  } else {
    act(decided);
  }
}
