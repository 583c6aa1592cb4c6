import { type CodeWithMessage, DomainError } from '../errors/domain-error.js';
import type { Admission } from '../http/request-context.js';
import { type ErrorResponse, errorResponse } from '../http/response.js';

// Built once: a rejection carries nothing of its request, and a stack trace for each would dominate its cost.
const RESPONSES = new Map<Error, ErrorResponse>();
const RATE_LIMIT_EXCEEDED = rejection('rate_limit_exceeded');
const API_KEY_BANNED = rejection('api_key_banned');
const ADDRESS_BANNED = rejection('address_banned');
export const MISSING_API_KEY = rejection('missing_api_key');
export const INVALID_API_KEY = rejection('invalid_api_key');

/**
 * Why a request is rejected; undefined when it is admitted. Limits come first, then the key: failed authentications
 * count, and an address that is banned does not learn whether its guesses exist. Unknown, expired and revoked keys get
 * the same response.
 */
export function rejectionOf({ caller, verdict }: Admission): Error | undefined {
  switch (verdict.outcome) {
    case 'limited':
      return RATE_LIMIT_EXCEEDED;
    case 'banned':
      return caller.account?.plan === 'anonymous' ? ADDRESS_BANNED : API_KEY_BANNED;
    case 'admitted':
      return caller.error;
  }
}

/** The response to a rejection that needs no log line; undefined for an error that prevented the decision. */
export function readyResponseTo(rejected: Error | undefined): ErrorResponse | undefined {
  return rejected && RESPONSES.get(rejected);
}

function rejection(code: CodeWithMessage): DomainError {
  const error = DomainError.of(code);
  RESPONSES.set(error, errorResponse(error));
  return error;
}
