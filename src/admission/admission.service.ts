import type { IncomingMessage } from 'node:http';
import { Inject, Injectable } from '@nestjs/common';
import { ApiKeysService } from '../api-keys/api-keys.service.js';
import { UsageRecorder } from '../api-keys/usage/usage-recorder.js';
import { asError } from '../common/as-error.js';
import { CLOCK, type Clock } from '../common/clock.js';
import type { Account, Admission, Caller, RequestContext } from '../http/request-context.js';
import { Metrics } from '../metrics/metrics.js';
import { ANONYMOUS_ID, ANONYMOUS_QUOTAS } from '../plans/plans.js';
import { type Verdict, verdictOfUnused } from '../rate-limit/decision.js';
import { rateLimitHeaders } from '../rate-limit/headers.js';
import { RateLimiter } from '../rate-limit/rate-limiter.js';
import { readBearer } from './bearer.js';
import { ClientAddress } from './client-address.js';
import { INVALID_API_KEY, rejectionOf } from './rejection.js';

/** A promise only when a round trip is needed: awaiting a value that is there costs a promise and a turn of the microtask queue. */
type Eventual<T> = T | Promise<T>;

const USAGE_OF = { admitted: { admitted: 1 }, limited: { rejected: 1 }, banned: { banned: 1 } } as const;

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
   * @returns why the request is rejected; undefined when it is admitted
   */
  admit(req: IncomingMessage, context: RequestContext): Eventual<Error | undefined> {
    const conclude = (admission: Admission): Error | undefined => {
      context.admission = admission;
      context.deferHeaders(rateLimitHeaders(admission.verdict));
      return rejectionOf(admission);
    };
    const fail = (error: unknown): Error | undefined =>
      conclude({ caller: { error: asError(error) }, verdict: this.unconsumed() });
    try {
      const admission = whenReady(this.#identify(req), (caller) => this.#count(caller));
      return admission instanceof Promise ? admission.then(conclude).catch(fail) : conclude(admission);
    } catch (error) {
      return fail(error);
    }
  }

  /** The verdict for a request that consumes no quota, such as a CORS preflight: that of an unused anonymous caller. */
  unconsumed(): Verdict {
    return verdictOfUnused(ANONYMOUS_QUOTAS, this.clock.now());
  }

  #identify(req: IncomingMessage): Eventual<Caller> {
    const token = readBearer(req.rawHeaders);
    if (token instanceof Error) {
      return anonymous(this.clientAddress.networkOf(req), token);
    }
    let network: string | undefined;
    const networkOnce = (): string => (network ??= this.clientAddress.networkOf(req));
    const callerWith = (key: Account | undefined): Caller =>
      key === undefined ? anonymous(networkOnce(), INVALID_API_KEY) : { account: key };
    const lookup = this.apiKeys.verify(token, networkOnce);
    if (!(lookup instanceof Promise)) {
      return callerWith(lookup);
    }
    // Read before the look-up ends: a socket that the client resets meanwhile has no address.
    networkOnce();
    return lookup.then(callerWith, (error: unknown) => ({
      account: this.apiKeys.lastKnown(token),
      error: asError(error),
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
      this.usage.add(isAnonymous ? ANONYMOUS_ID : id, USAGE_OF[verdict.outcome]);
      return { caller, verdict };
    });
  }
}

function anonymous(network: string, error: Error): Caller {
  return { account: { id: network, plan: 'anonymous', quotas: ANONYMOUS_QUOTAS }, error };
}

/** Goes on with a value at once when it is there. */
function whenReady<T, R>(value: Eventual<T>, use: (value: T) => Eventual<R>): Eventual<R> {
  return value instanceof Promise ? value.then(use) : use(value);
}
