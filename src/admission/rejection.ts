import { DomainError } from '../errors/domain-error.js';
import type { Admission } from './caller.js';

/** Why a request is not admitted. */
export interface Rejection {
  readonly by: 'limits' | 'key';
  readonly error: Error;
}

// Built once: a rejection carries nothing of its request, and a stack trace for each would dominate its cost.
const RATE_LIMIT_EXCEEDED = rejection('limits', 'rate_limit_exceeded');
const API_KEY_BANNED = rejection('limits', 'api_key_banned');
const ADDRESS_BANNED = rejection('limits', 'address_banned');
const MISSING_API_KEY = rejection('key', 'missing_api_key');
const INVALID_API_KEY = rejection('key', 'invalid_api_key');

/**
 * Why a request is rejected; undefined when it is admitted. Limits come first, then the key: failed authentications
 * count, and an address that is banned does not learn whether its guesses exist.
 */
export function rejectionOf(admission: Admission): Rejection | undefined {
  return rejectionByLimits(admission) ?? rejectionByKey(admission);
}

function rejectionByLimits({ verdict, caller }: Admission): Rejection | undefined {
  switch (verdict.outcome) {
    case 'admitted':
      return undefined;
    case 'limited':
      return RATE_LIMIT_EXCEEDED;
    case 'banned':
      return caller.kind === 'anonymous' ? ADDRESS_BANNED : API_KEY_BANNED;
  }
}

/** Unknown, expired and revoked keys get the same response. */
function rejectionByKey({ caller }: Admission): Rejection | undefined {
  switch (caller.kind) {
    case 'key':
      return undefined;
    case 'unverified':
      return { by: 'key', error: caller.failure };
    case 'anonymous':
      return caller.credentials === 'missing' ? MISSING_API_KEY : INVALID_API_KEY;
  }
}

function rejection(by: Rejection['by'], code: Parameters<typeof DomainError.of>[0]): Rejection {
  return { by, error: DomainError.of(code) };
}
