import { DomainError } from '../errors/domain-error.js';
import type { Admission, LimitRejection } from './admission.js';

// Built once: a rejection carries nothing of its request, and a stack trace for each would dominate its cost.
const RATE_LIMIT_EXCEEDED: LimitRejection = { by: 'limits', error: DomainError.of('rate_limit_exceeded') };
const API_KEY_BANNED: LimitRejection = { by: 'limits', error: DomainError.of('api_key_banned') };
const ADDRESS_BANNED: LimitRejection = { by: 'limits', error: DomainError.of('address_banned') };

/** The 429 for a caller that is over its limit or banned; undefined when the limits admit the request. */
export function tooManyRequests({ verdict, caller }: Admission): LimitRejection | undefined {
  switch (verdict.outcome) {
    case 'admitted':
      return undefined;
    case 'limited':
      return RATE_LIMIT_EXCEEDED;
    case 'banned':
      return caller.kind === 'anonymous' ? ADDRESS_BANNED : API_KEY_BANNED;
  }
}
