import { DomainError } from '../errors/domain-error.js';
import type { Admission } from './caller.js';

/** Made once: a refusal has nothing of its own to say, and a stack trace for each would be most of what refusing costs. */
const RATE_LIMIT_EXCEEDED = new DomainError(
  'rate_limit_exceeded',
  'The rate limit is exceeded. Wait for the time given in Retry-After, then back off exponentially.',
);
const API_KEY_BANNED = new DomainError(
  'api_key_banned',
  'This API key is banned for a while because it kept calling after its limit was exceeded. See Retry-After.',
);
const ADDRESS_BANNED = new DomainError(
  'address_banned',
  'This address is banned for a while because it kept calling without a valid API key after its limit was exceeded. See Retry-After.',
);
const MISSING_API_KEY = new DomainError(
  'missing_api_key',
  'An API key is required: send it as "Authorization: Bearer <key>".',
);
const INVALID_API_KEY = new DomainError('invalid_api_key', 'The API key is not valid.');

/** Why a request is not admitted by its limits; undefined when it is. */
export function refusalByLimits({ verdict, caller }: Admission): DomainError | undefined {
  switch (verdict.outcome) {
    case 'admitted':
      return undefined;
    case 'limited':
      return RATE_LIMIT_EXCEEDED;
    case 'banned':
      return caller.kind === 'key' ? API_KEY_BANNED : ADDRESS_BANNED;
  }
}

/** Why a request is not let in by its key; undefined when it is. Unknown, expired and revoked keys read alike. */
export function refusalByKey({ caller }: Admission): Error | undefined {
  switch (caller.kind) {
    case 'key':
      return undefined;
    case 'unverified':
      return caller.failure;
    case 'anonymous':
      return caller.credentials === 'missing' ? MISSING_API_KEY : INVALID_API_KEY;
  }
}
