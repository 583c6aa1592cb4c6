import type { IncomingMessage } from 'node:http';
import { Inject, Injectable } from '@nestjs/common';
import { ApiKeysService } from '../api-keys/api-keys.service.js';
import { ANONYMOUS_ID } from '../api-keys/usage/usage-counts.js';
import { UsageRecorder } from '../api-keys/usage/usage-recorder.js';
import type { VerifiedKey } from '../api-keys/verified-key.js';
import { asError } from '../common/as-error.js';
import { CLOCK, type Clock } from '../common/clock.js';
import { isPromise, whenReady } from '../common/when-ready.js';
import type { Account, Admission, AnonymousCaller, Caller, RequestContext } from '../http/request-context.js';
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
   * Admits or rejects a request, and defers the rate-limit headers of its response. Call once for each request. Never fails:
   * an error that prevents the decision is the rejection.
   * @returns undefined when the request is admitted; a promise only when a round trip is needed
   */
  admit(req: IncomingMessage, context: RequestContext): Rejection | undefined | Promise<Rejection | undefined> {
    return whenReady(
      this.#decide(() => this.#identify(req)),
      (admission) => {
        context.admission = admission;
        context.deferHeaders(admission.headers);
        return rejectionOf(admission);
      },
    );
  }

  /** Counts a request that has no identity, such as one that the HTTP parser rejected, against an address. Never rejects. */
  async admitAddress(address: string): Promise<Admission> {
    return await this.#decide(() => anonymous('missing', address));
  }

  /** The verdict for a request that consumes no quota, such as a CORS preflight: that of an unused anonymous caller. */
  unconsumed(): Verdict {
    return verdictOfUnused(ANONYMOUS_QUOTAS, this.clock.now());
  }

  #decide(identify: () => Caller | Promise<Caller>): Admission | Promise<Admission> {
    const failed = (error: unknown): Admission =>
      admissionOf({ kind: 'unverified', failure: asError(error) }, this.unconsumed());
    try {
      const admission = whenReady(identify(), (caller) => this.#count(caller));
      return isPromise(admission) ? admission.catch(failed) : admission;
    } catch (error) {
      return failed(error);
    }
  }

  #count(caller: Caller): Admission | Promise<Admission> {
    return whenReady(this.#consume(caller.account), (verdict) => {
      this.#record(caller.account, verdict);
      return admissionOf(caller, verdict);
    });
  }

  #identify(req: IncomingMessage): Caller | Promise<Caller> {
    const bearer = readBearer(req.rawHeaders);
    if (bearer.kind !== 'token') {
      return anonymous(bearer.kind === 'missing' ? 'missing' : 'invalid', this.clientAddress.of(req));
    }
    const { token } = bearer;
    let address: string | undefined;
    const addressOf = (): string => (address ??= this.clientAddress.of(req));
    const callerWith = (key: VerifiedKey | undefined): Caller =>
      key === undefined ? anonymous('invalid', addressOf()) : { kind: 'key', key, account: accountOf(key) };
    const lookup = this.apiKeys.verify(token, () => subjectOfAddress(addressOf()));
    if (!isPromise(lookup)) {
      return callerWith(lookup);
    }
    // Read before the look-up ends: a socket that the client resets meanwhile has no address.
    addressOf();
    return lookup.then(callerWith, (error: unknown) => {
      const key = this.apiKeys.lastKnown(token);
      return { kind: 'unverified', failure: asError(error), account: key && accountOf(key) };
    });
  }

  #consume(account: Account | undefined): Verdict | Promise<Verdict> {
    return account === undefined ? this.unconsumed() : this.quotas.consume(account.subject, account.quotas);
  }

  #record(account: Account | undefined, { outcome }: Verdict): void {
    if (account !== undefined) {
      this.metrics.limiterDecisions.labels(account.plan, outcome).inc();
      this.usage.decided(account.usageId, outcome);
    }
  }
}

function admissionOf(caller: Caller, verdict: Verdict): Admission {
  return { caller, verdict, headers: rateLimitHeaders(verdict) };
}

function accountOf({ id, plan, quotas }: VerifiedKey): Account {
  return { subject: subjectOfKey(id), quotas, plan, usageId: id };
}

function anonymous(credentials: AnonymousCaller['credentials'], address: string): AnonymousCaller {
  const subject = subjectOfAddress(address);
  return {
    kind: 'anonymous',
    credentials,
    account: { subject, quotas: ANONYMOUS_QUOTAS, plan: 'anonymous', usageId: ANONYMOUS_ID },
  };
}
