import { DomainError } from '../errors/domain-error.js';
import type { Admission } from '../http/request-context.js';
import { errorResponse } from '../http/response.js';

/**
 * A rejection by limits or key. Each is built once, with its response: it carries nothing of its request, and a stack trace
 * for each request would dominate its cost.
 */
export class Rejection extends DomainError {
  readonly response = errorResponse(this);
}

const RATE_LIMIT_EXCEEDED = new Rejection('rate_limit_exceeded');
const API_KEY_BANNED = new Rejection('api_key_banned');
const ADDRESS_BANNED = new Rejection('address_banned');
export const MISSING_API_KEY = new Rejection('missing_api_key');
export const INVALID_API_KEY = new Rejection('invalid_api_key');

/**
 * Why a request is rejected: a {@link Rejection}, or an error that prevented the decision. Undefined when it is admitted. Limits come
 * first, then the key: failed authentications count, and an address that is banned does not learn whether its guesses exist. Unknown,
 * expired and revoked keys get the same response.
 */
export function rejectionOf({ account, error, verdict }: Admission): Error | undefined {
  switch (verdict.outcome) {
    case 'limited':
      return RATE_LIMIT_EXCEEDED;
    case 'banned':
      return account?.plan === 'anonymous' ? ADDRESS_BANNED : API_KEY_BANNED;
    case 'admitted':
      return error;
  }
}
