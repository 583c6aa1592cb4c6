import { type CodeWithMessage, DomainError } from '../errors/domain-error.js';
import type { Admission } from '../http/request-context.js';
import { type ErrorResponse, errorResponse } from '../http/response.js';

/** Why a request is not admitted. */
export interface Rejection {
  /** What rejects it: its limits or ban, its missing or invalid key, or an error that prevented the decision. */
  readonly by: 'limits' | 'key' | 'error';
  readonly error: Error;
  /** The response to a rejection that needs no log line. */
  readonly response?: ErrorResponse;
}

// Built once: a rejection carries nothing of its request, and a stack trace for each would dominate its cost.
const RATE_LIMIT_EXCEEDED = rejectionWith('limits', 'rate_limit_exceeded');
const API_KEY_BANNED = rejectionWith('limits', 'api_key_banned');
const ADDRESS_BANNED = rejectionWith('limits', 'address_banned');
const MISSING_API_KEY = rejectionWith('key', 'missing_api_key');
const INVALID_API_KEY = rejectionWith('key', 'invalid_api_key');

/**
 * Why a request is rejected; undefined when it is admitted. Limits come first, then the key: failed authentications
 * count, and an address that is banned does not learn whether its guesses exist. Unknown, expired and revoked keys get
 * the same response.
 */
export function rejectionOf({ caller, verdict }: Admission): Rejection | undefined {
  switch (verdict.outcome) {
    case 'limited':
      return RATE_LIMIT_EXCEEDED;
    case 'banned':
      return caller.account?.plan === 'anonymous' ? ADDRESS_BANNED : API_KEY_BANNED;
    case 'admitted':
      break;
  }
  switch (caller.kind) {
    case 'key':
      return undefined;
    case 'unverified':
      return { by: 'error', error: caller.failure };
    case 'missing_key':
      return MISSING_API_KEY;
    case 'invalid_key':
      return INVALID_API_KEY;
  }
}

function rejectionWith(by: Rejection['by'], code: CodeWithMessage): Rejection {
  const error = DomainError.of(code);
  return { by, error, response: errorResponse(error) };
}
