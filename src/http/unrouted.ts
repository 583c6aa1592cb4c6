import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AdmissionService } from '../rate-limit/admission.service.js';
import { refusalByKey, refusalByLimits } from '../rate-limit/refusal.js';
import { keepLimitHeaders } from './answer.js';

/**
 * Puts a request that will meet no guard (it fails before any route matches) through what the guards check: limits
 * first, then the key. Keeps the limit headers for its answer.
 * @returns why it is refused, if it is
 */
export async function admitUnrouted(
  req: IncomingMessage,
  res: ServerResponse,
  admission: AdmissionService,
): Promise<Error | undefined> {
  const admitted = await admission.admit(req);
  keepLimitHeaders(res, admitted.verdict);
  return refusalByLimits(admitted) ?? refusalByKey(admitted);
}
