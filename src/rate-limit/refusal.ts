import { DomainError } from '../errors/domain-error.js';
import type { Admission } from './caller.js';

/** Made once: a refusal has nothing of its own to say, and a stack trace for each would be most of what refusing costs. */
const RATE_LIMIT_EXCEEDED = DomainError.of('rate_limit_exceeded');
const API_KEY_BANNED = DomainError.of('api_key_banned');
const ADDRESS_BANNED = DomainError.of('address_banned');
const MISSING_API_KEY = DomainError.of('missing_api_key');
const INVALID_API_KEY = DomainError.of('invalid_api_key');

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
