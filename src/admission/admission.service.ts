import type { IncomingMessage } from 'node:http';
import { Inject, Injectable } from '@nestjs/common';
import { ApiKeysService } from '../api-keys/api-keys.service.js';
import { ANONYMOUS_ID } from '../api-keys/usage/usage-counts.js';
import { UsageRecorder } from '../api-keys/usage/usage-recorder.js';
import { asError } from '../common/as-error.js';
import { CLOCK, type Clock } from '../common/clock.js';
import type { Account, Admission, Caller, RequestContext } from '../http/request-context.js';
import { Metrics } from '../metrics/metrics.js';
import { ANONYMOUS_QUOTAS } from '../plans/plans.js';
import { type Verdict, verdictOfUnused } from '../rate-limit/decision.js';
import { rateLimitHeaders } from '../rate-limit/headers.js';
import { networkOf } from '../rate-limit/network.js';
import { RateLimiter } from '../rate-limit/rate-limiter.js';
import { readBearer } from './bearer.js';
import { ClientAddress } from './client-address.js';
import { type Rejection, rejectionOf } from './rejection.js';

/** A promise only when a round trip is needed: awaiting a value that is there costs a promise and a turn of the microtask queue. */
type Eventual<T> = T | Promise<T>;

/** Admits or rejects requests: identifies the caller, then counts the request against it. */
@Injectable()
export class AdmissionService {
  constructor(
    private readonly apiKeys: ApiKeysService,
    private readonly usage: UsageRecorder,
    private readonly limiter: RateLimiter,
    private readonly clientAddress: ClientAddress,
    @Inject(CLOCK) private readonly clock: Clock,
    private readonly metrics: Metrics,
  ) {}

  /**
   * Admits or rejects a request, and defers the rate-limit headers of its response. Call once for each request. Never fails:
   * an error that prevents the decision is the rejection.
   * @returns undefined when the request is admitted
   */
  admit(req: IncomingMessage, context: RequestContext): Eventual<Rejection | undefined> {
    return this.#decide(context, () => this.#identify(req));
  }

  /** The same for a request that has no identity, such as one that the HTTP parser rejected: it is counted against an address. */
  admitAddress(address: string, context: RequestContext): Eventual<Rejection | undefined> {
    return this.#decide(context, () => anonymous('missing_key', address));
  }

  /** The verdict for a request that consumes no quota, such as a CORS preflight: that of an unused anonymous caller. */
  unconsumed(): Verdict {
    return verdictOfUnused(ANONYMOUS_QUOTAS, this.clock.now());
  }

  #decide(context: RequestContext, identify: () => Eventual<Caller>): Eventual<Rejection | undefined> {
    const conclude = (admission: Admission): Rejection | undefined => {
      context.admission = admission;
      context.deferHeaders(rateLimitHeaders(admission.verdict));
      return rejectionOf(admission);
    };
    const fail = (error: unknown): Rejection | undefined =>
      conclude({ caller: { kind: 'unverified', failure: asError(error) }, verdict: this.unconsumed() });
    try {
      const admission = whenReady(identify(), (caller) => this.#count(caller));
      return admission instanceof Promise ? admission.then(conclude).catch(fail) : conclude(admission);
    } catch (error) {
      return fail(error);
    }
  }

  #identify(req: IncomingMessage): Eventual<Caller> {
    const bearer = readBearer(req.rawHeaders);
    if (bearer.kind !== 'token') {
      return anonymous(bearer.kind === 'missing' ? 'missing_key' : 'invalid_key', this.clientAddress.of(req));
    }
    const { token } = bearer;
    let address: string | undefined;
    const addressOf = (): string => (address ??= this.clientAddress.of(req));
    const callerWith = (key: Account | undefined): Caller =>
      key === undefined ? anonymous('invalid_key', addressOf()) : { kind: 'key', account: key };
    const lookup = this.apiKeys.verify(token, () => networkOf(addressOf()));
    if (!(lookup instanceof Promise)) {
      return callerWith(lookup);
    }
    // Read before the look-up ends: a socket that the client resets meanwhile has no address.
    addressOf();
    return lookup.then(callerWith, (error: unknown) => ({
      kind: 'unverified',
      failure: asError(error),
      account: this.apiKeys.lastKnown(token),
    }));
  }

  #count(caller: Caller): Eventual<Admission> {
    const { account } = caller;
    if (account === undefined) {
      return { caller, verdict: this.unconsumed() };
    }
    const { id, plan, quotas } = account;
    const isAnonymous = plan === 'anonymous';
    const store = isAnonymous ? this.limiter.addresses : this.limiter.keys;
    return whenReady(store.consume(id, quotas), (verdict) => {
      this.metrics.limiterDecisions.labels(plan, verdict.outcome).inc();
      this.usage.decided(isAnonymous ? ANONYMOUS_ID : id, verdict.outcome);
      return { caller, verdict };
    });
  }
}

function anonymous(kind: 'missing_key' | 'invalid_key', address: string): Caller {
  return { kind, account: { id: networkOf(address), plan: 'anonymous', quotas: ANONYMOUS_QUOTAS } };
}

/** Goes on with a value at once when it is there. */
function whenReady<T, R>(value: Eventual<T>, use: (value: T) => Eventual<R>): Eventual<R> {
  return value instanceof Promise ? value.then(use) : use(value);
}
