import type { VerifiedKey } from '../api-keys/verified-key.js';
import type { Quotas } from '../plans/plans.js';
import type { Subject } from '../rate-limit/subject.js';
import type { Verdict } from '../rate-limit/verdict.js';

/** Who makes a request, and against whom it is counted. */
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
  /** Why the request has no key: none was sent, or what was sent is no key of ours. */
  readonly credentials: 'missing' | 'invalid';
  readonly subject: Subject;
  readonly quotas: Quotas;
}

/** A key was sent but the database could not be asked about it: the request is refused, and counted against nobody. */
export interface UnverifiedCaller {
  readonly kind: 'unverified';
  readonly failure: Error;
}

/** The decision about one request, made once and read by all who need it. */
export interface Admission {
  readonly caller: Caller;
  readonly verdict: Verdict;
}
