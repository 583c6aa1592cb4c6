import type { IncomingMessage, ServerResponse } from 'node:http';
import { DomainError } from '../errors/domain-error.js';
import { isPromise } from '../is-promise.js';
import type { AdmissionService } from '../rate-limit/admission.service.js';
import type { Admission } from '../rate-limit/caller.js';
import { refusalByKey, refusalByLimits } from '../rate-limit/refusal.js';
import { isApiPath } from './api-path.js';
import { type ErrorAnswer, errorAnswer, keepLimitHeaders, writeErrorAnswer } from './answer.js';
import { atEndOfTurn } from './end-of-turn.js';

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
  if (isPromise(decided)) {
    void decided.then((settled) => {
      conclude(settled, res, goOn, atOnce);
    });
  } else {
    conclude(decided, res, goOn, atEndOfTurn);
  }
}

function conclude(admission: Admission, res: ServerResponse, goOn: () => void, when: (work: () => void) => void): void {
  keepLimitHeaders(res, admission.verdict);
  const refusal = refusalByLimits(admission) ?? refusalByKey(admission);
  if (refusal instanceof DomainError && refusal.code !== 'service_unavailable') {
    when(() => {
      writeErrorAnswer(res, answerOf(refusal));
    });
  } else {
    goOn();
  }
}

function atOnce(work: () => void): void {
  work();
}

/** Refusals are a handful of constants, and so are their answers. */
const answers = new WeakMap<DomainError, ErrorAnswer>();

function answerOf(refusal: DomainError): ErrorAnswer {
  let answer = answers.get(refusal);
  if (answer === undefined) {
    answer = errorAnswer(refusal.code, refusal.message);
    answers.set(refusal, answer);
  }
  return answer;
}
