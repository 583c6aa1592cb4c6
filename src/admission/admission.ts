import type { VerifiedKey } from '../api-keys/verified-key.js';
import type { DomainError } from '../errors/domain-error.js';
import type { Quotas } from '../plans/plans.js';
import type { Subject } from '../rate-limit/subject.js';
import type { Verdict } from '../rate-limit/verdict.js';

/** The caller of a request and the subject that the request is counted against. */
export type Caller = KeyCaller | AnonymousCaller | UnverifiedCaller;

/** Has a valid key and is counted against it. */
export interface KeyCaller {
  readonly kind: 'key';
  readonly key: VerifiedKey;
  readonly subject: Subject;
  readonly quotas: Quotas;
}

/** Has no valid key and is counted against the address. */
export interface AnonymousCaller {
  readonly kind: 'anonymous';
  /** Why the request has no key: none was sent, or an invalid one. */
  readonly credentials: 'missing' | 'invalid';
  readonly subject: Subject;
  readonly quotas: Quotas;
}

/** A key was sent, but the database is unavailable to verify it: the request is rejected with 503. */
export interface UnverifiedCaller {
  readonly kind: 'unverified';
  readonly failure: Error;
}

/** The decision about one request, made once and cached with the request. */
export interface Admission {
  readonly caller: Caller;
  readonly verdict: Verdict;
}

/** Why a request is not admitted. */
export type Rejection = LimitRejection | { readonly by: 'key'; readonly error: Error };

export interface LimitRejection {
  readonly by: 'limits';
  readonly error: DomainError;
}
