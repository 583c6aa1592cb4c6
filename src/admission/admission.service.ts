import type { IncomingMessage, ServerResponse } from 'node:http';
import { Inject, Injectable } from '@nestjs/common';
import { ApiKeysService } from '../api-keys/api-keys.service.js';
import { readBearer } from './bearer.js';
import { ANONYMOUS_ID } from '../api-keys/usage/usage-counts.js';
import { UsageRecorder } from '../api-keys/usage/usage-recorder.js';
import type { VerifiedKey } from '../api-keys/verified-key.js';
import { CLOCK, type Clock } from '../common/clock.js';
import { ClientAddress } from './client-address.js';
import { asError } from '../common/as-error.js';
import { Metrics } from '../metrics/metrics.js';
import { isPromise } from '../common/is-promise.js';
import { deferHeaders } from '../http/response.js';
import { rateLimitHeaders } from '../rate-limit/headers.js';
import type { Admission, AnonymousCaller, KeyCaller, Rejection } from './admission.js';
import { tooManyRequests } from './too-many-requests.js';
import { unauthorized } from './unauthorized.js';
import { verdictOfUnused } from '../rate-limit/decision.js';
import type { Verdict } from '../rate-limit/verdict.js';
import { ANONYMOUS_QUOTAS } from '../plans/plans.js';
import { QUOTA_STORE, type QuotaStore } from '../rate-limit/quota-store.js';
import { subjectOfAddress, subjectOfKey } from '../rate-limit/subject.js';

const ADMISSION = Symbol('admission');
const LIMITS_DEFERRED = Symbol('limit headers deferred');

type AdmittedRequest = IncomingMessage & { [ADMISSION]?: Admission | Promise<Admission> };
type MarkedResponse = ServerResponse & { [LIMITS_DEFERRED]?: true };

/**
 * Admits or rejects requests: identifies the caller, then counts the request against it. Every request is decided once;
 * the early rejection, the guards and the exception filter share the cached decision.
 */
@Injectable()
export class AdmissionService {
  constructor(
    private readonly apiKeys: ApiKeysService,
    private readonly usage: UsageRecorder,
    @Inject(QUOTA_STORE) private readonly quotas: QuotaStore,
    private readonly clientAddress: ClientAddress,
    @Inject(CLOCK) private readonly clock: Clock,
    private readonly metrics: Metrics,
  ) {}

  /**
   * Admits or rejects a request, and defers the rate-limit headers of its response, once.
   * Returns without a promise when no round trip is needed. Never rejects.
   * @returns undefined when the request is admitted
   */
  check(req: IncomingMessage, res: ServerResponse): Rejection | undefined | Promise<Rejection | undefined> {
    const admission = this.admit(req);
    return isPromise(admission)
      ? admission.then((settled) => deferLimitHeaders(settled, res))
      : deferLimitHeaders(admission, res);
  }

  /** The decision about a request; without a promise when no round trip is needed. Never rejects. */
  admit(req: IncomingMessage): Admission | Promise<Admission> {
    const request = req as AdmittedRequest;
    const memo = request[ADMISSION];
    if (memo !== undefined) {
      return memo;
    }
    const admission = this.#decide(req);
    request[ADMISSION] = admission;
    if (isPromise(admission)) {
      void admission.then((settled) => {
        request[ADMISSION] = settled;
      });
    }
    return admission;
  }

  /** The decision if it has been made by now. */
  settledAdmissionOf(req: IncomingMessage): Admission | undefined {
    return admissionOf(req);
  }

  /** Counts a request that has no identity, such as one that the HTTP parser rejected, against an address. */
  admitAddress(address: string): Admission | Promise<Admission> {
    return this.#count(anonymous('missing', address));
  }

  /** The verdict for a request that consumes no quota, such as a CORS preflight: that of an unused anonymous caller. */
  unconsumed(): Verdict {
    return verdictOfUnused(ANONYMOUS_QUOTAS, this.clock.now());
  }

  #decide(req: IncomingMessage): Admission | Promise<Admission> {
    const bearer = readBearer(req.rawHeaders);
    if (bearer.kind !== 'token') {
      return this.#count(anonymous(bearer.kind === 'missing' ? 'missing' : 'invalid', this.clientAddress.of(req)));
    }
    const { token } = bearer;
    let cachedAddress: string | undefined;
    const addressOf = (): string => (cachedAddress ??= this.clientAddress.of(req));
    const key = this.apiKeys.verify(token, () => subjectOfAddress(addressOf()));
    if (!isPromise(key)) {
      return this.#count(key === undefined ? anonymous('invalid', addressOf()) : keyCaller(key));
    }
    // Read before the look-up: a socket that the client resets meanwhile has no address.
    const address = addressOf();
    return key.then(
      (found) => this.#count(found === undefined ? anonymous('invalid', address) : keyCaller(found)),
      (failure: unknown) => this.#countUnverified(token, asError(failure)),
    );
  }

  /**
   * Counts a request whose key cannot be verified against the key that the token had before, so that the headers show its
   * plan. A token that this process has never seen is not counted and gets the headers of an unused anonymous caller.
   */
  async #countUnverified(token: string, failure: Error): Promise<Admission> {
    const key = this.apiKeys.lastKnown(token);
    if (key === undefined) {
      return { caller: { kind: 'unverified', failure }, verdict: this.unconsumed() };
    }
    const verdict = await this.quotas.consume(subjectOfKey(key.id), key.quotas);
    this.usage.decided(key.id, verdict.outcome);
    return { caller: { kind: 'unverified', failure }, verdict };
  }

  #count(caller: KeyCaller | AnonymousCaller): Admission | Promise<Admission> {
    const verdict = this.quotas.consume(caller.subject, caller.quotas);
    return isPromise(verdict)
      ? verdict.then((settled) => this.#decided(caller, settled))
      : this.#decided(caller, verdict);
  }

  #decided(caller: KeyCaller | AnonymousCaller, verdict: Verdict): Admission {
    const [plan, keyId] = caller.kind === 'key' ? [caller.key.plan, caller.key.id] : ['anonymous', ANONYMOUS_ID];
    this.metrics.limiterDecisions.labels(plan, verdict.outcome).inc();
    this.usage.decided(keyId, verdict.outcome);
    return { caller, verdict };
  }
}

/** The decision about a request if it has been made by now. */
export function admissionOf(req: IncomingMessage): Admission | undefined {
  const memo = (req as AdmittedRequest)[ADMISSION];
  return memo === undefined || isPromise(memo) ? undefined : memo;
}

function keyCaller(key: VerifiedKey): KeyCaller {
  return { kind: 'key', key, subject: subjectOfKey(key.id), quotas: key.quotas };
}

function anonymous(credentials: 'missing' | 'invalid', address: string): AnonymousCaller {
  return { kind: 'anonymous', credentials, subject: subjectOfAddress(address), quotas: ANONYMOUS_QUOTAS };
}

/**
 * Why a request is rejected; undefined when it is admitted. Limits come first, then the key: failed authentications
 * count, and an address that is banned does not learn whether its guesses exist.
 */
export function rejectionOf(admission: Admission): Rejection | undefined {
  return tooManyRequests(admission) ?? unauthorized(admission);
}

function deferLimitHeaders(admission: Admission, res: ServerResponse): Rejection | undefined {
  const marked = res as MarkedResponse;
  if (marked[LIMITS_DEFERRED] === undefined) {
    marked[LIMITS_DEFERRED] = true;
    deferHeaders(res, rateLimitHeaders(admission.verdict));
  }
  return rejectionOf(admission);
}
