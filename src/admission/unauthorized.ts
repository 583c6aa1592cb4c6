import { DomainError } from '../errors/domain-error.js';
import type { Admission, Rejection } from './admission.js';

// Built once, like those of `tooManyRequests`.
const MISSING_API_KEY: Rejection = { by: 'key', error: DomainError.of('missing_api_key') };
const INVALID_API_KEY: Rejection = { by: 'key', error: DomainError.of('invalid_api_key') };

/**
 * The 401 for a caller without a valid key, or the 503 when the key cannot be verified; undefined when the key is valid.
 * Unknown, expired and revoked keys get the same response.
 */
export function unauthorized({ caller }: Admission): Rejection | undefined {
  switch (caller.kind) {
    case 'key':
      return undefined;
    case 'unverified':
      return { by: 'key', error: caller.failure };
    case 'anonymous':
      return caller.credentials === 'missing' ? MISSING_API_KEY : INVALID_API_KEY;
  }
}
