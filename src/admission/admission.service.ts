import type { IncomingMessage } from 'node:http';
import { Inject, Injectable } from '@nestjs/common';
import { ApiKeysService } from '../api-keys/api-keys.service.js';
import { ANONYMOUS_ID } from '../api-keys/usage/usage-counts.js';
import { UsageRecorder } from '../api-keys/usage/usage-recorder.js';
import type { VerifiedKey } from '../api-keys/verified-key.js';
import { asError } from '../common/as-error.js';
import { CLOCK, type Clock } from '../common/clock.js';
import { isPromise } from '../common/is-promise.js';
import {
  type Admission,
  type AnonymousCaller,
  type Caller,
  type KeyCaller,
  RequestContext,
} from '../http/request-context.js';
import { Metrics } from '../metrics/metrics.js';
import { ANONYMOUS_QUOTAS } from '../plans/plans.js';
import { verdictOfUnused } from '../rate-limit/decision.js';
import { rateLimitHeaders } from '../rate-limit/headers.js';
import { QUOTA_STORE, type QuotaStore } from '../rate-limit/quota-store.js';
import { subjectOfAddress, subjectOfKey } from '../rate-limit/subject.js';
import type { Verdict } from '../rate-limit/verdict.js';
import { readBearer } from './bearer.js';
import { ClientAddress } from './client-address.js';
import { type Rejection, rejectionOf } from './rejection.js';

/** Admits or rejects requests: identifies the caller, then counts the request against it. */
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
   * Admits or rejects a request and defers the rate-limit headers of its response, both once: later calls return the same
   * decision. Never rejects: an error that prevents the decision is the rejection.
   * @returns undefined when the request is admitted
   */
  async admit(req: IncomingMessage): Promise<Rejection | undefined> {
    const context = RequestContext.of(req) ?? RequestContext.begin(req);
    if (context.admission === undefined) {
      context.admission = await this.#settled(() => this.#decide(req));
      context.deferHeaders(context.admission.headers);
    }
    return rejectionOf(context.admission);
  }

  /** Counts a request that has no identity, such as one that the HTTP parser rejected, against an address. Never rejects. */
  admitAddress(address: string): Promise<Admission> {
    return this.#settled(() => this.#count(anonymous('missing', address)));
  }

  /** The verdict for a request that consumes no quota, such as a CORS preflight: that of an unused anonymous caller. */
  unconsumed(): Verdict {
    return verdictOfUnused(ANONYMOUS_QUOTAS, this.clock.now());
  }

  async #settled(decide: () => Promise<Admission>): Promise<Admission> {
    try {
      return await decide();
    } catch (error) {
      return admissionOf({ kind: 'unverified', failure: asError(error) }, this.unconsumed());
    }
  }

  async #decide(req: IncomingMessage): Promise<Admission> {
    const bearer = readBearer(req.rawHeaders);
    if (bearer.kind !== 'token') {
      return this.#count(anonymous(bearer.kind === 'missing' ? 'missing' : 'invalid', this.clientAddress.of(req)));
    }
    const { token } = bearer;
    let cachedAddress: string | undefined;
    const addressOf = (): string => (cachedAddress ??= this.clientAddress.of(req));
    let key: VerifiedKey | undefined;
    try {
      const lookup = this.apiKeys.verify(token, () => subjectOfAddress(addressOf()));
      if (isPromise(lookup)) {
        // Read before the look-up ends: a socket that the client resets meanwhile has no address.
        addressOf();
      }
      key = await lookup;
    } catch (error) {
      return await this.#countUnverified(token, asError(error));
    }
    return this.#count(key === undefined ? anonymous('invalid', addressOf()) : keyCaller(key));
  }

  /**
   * Counts a request whose key cannot be verified against the key that the token had before, so that the headers show its
   * plan. A token that this process has never seen is not counted and gets the headers of an unused anonymous caller.
   */
  async #countUnverified(token: string, failure: Error): Promise<Admission> {
    const key = this.apiKeys.lastKnown(token);
    if (key === undefined) {
      return admissionOf({ kind: 'unverified', failure }, this.unconsumed());
    }
    const verdict = await this.quotas.consume(subjectOfKey(key.id), key.quotas);
    this.usage.decided(key.id, verdict.outcome);
    return admissionOf({ kind: 'unverified', failure }, verdict);
  }

  async #count(caller: KeyCaller | AnonymousCaller): Promise<Admission> {
    const verdict = await this.quotas.consume(caller.subject, caller.quotas);
    const [plan, keyId] = caller.kind === 'key' ? [caller.key.plan, caller.key.id] : ['anonymous', ANONYMOUS_ID];
    this.metrics.limiterDecisions.labels(plan, verdict.outcome).inc();
    this.usage.decided(keyId, verdict.outcome);
    return admissionOf(caller, verdict);
  }
}

function admissionOf(caller: Caller, verdict: Verdict): Admission {
  return { caller, verdict, headers: rateLimitHeaders(verdict) };
}

function keyCaller(key: VerifiedKey): KeyCaller {
  return { kind: 'key', key, subject: subjectOfKey(key.id), quotas: key.quotas };
}

function anonymous(credentials: 'missing' | 'invalid', address: string): AnonymousCaller {
  return { kind: 'anonymous', credentials, subject: subjectOfAddress(address), quotas: ANONYMOUS_QUOTAS };
}
