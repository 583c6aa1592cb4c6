import { DomainError } from '../errors/domain-error.js';
import type { Admission } from './caller.js';

/** Why a request is not admitted by its limits; undefined when it is. */
export function refusalByLimits({ verdict, caller }: Admission): DomainError | undefined {
  switch (verdict.outcome) {
    case 'admitted':
      return undefined;
    case 'limited':
      return new DomainError(
        'rate_limit_exceeded',
        'The rate limit is exceeded. Wait for the time given in Retry-After, then back off exponentially.',
      );
    case 'banned':
      return caller.kind === 'key'
        ? new DomainError(
            'api_key_banned',
            'This API key is banned for a while because it kept calling after its limit was exceeded. See Retry-After.',
          )
        : new DomainError(
            'address_banned',
            'This address is banned for a while because it kept calling without a valid API key after its limit was exceeded. See Retry-After.',
          );
  }
}

/** Why a request is not let in by its key; undefined when it is. Unknown, expired and revoked keys read alike. */
export function refusalByKey({ caller }: Admission): Error | undefined {
  if (caller.kind === 'key') {
    return undefined;
  }
  if (caller.kind === 'unverified') {
    return caller.failure;
  }
  return caller.credentials === 'missing'
    ? new DomainError('missing_api_key', 'An API key is required: send it as "Authorization: Bearer <key>".')
    : new DomainError('invalid_api_key', 'The API key is not valid.');
}
