import type { IncomingMessage } from 'node:http';
import { Inject, Injectable } from '@nestjs/common';
import { ApiKeysService } from '../api-keys/api-keys.service.js';
import { UsageRecorder } from '../api-keys/usage/usage-recorder.js';
import { asError } from '../common/as-error.js';
import { CLOCK, type Clock } from '../common/clock.js';
import type { Account, Admission, RequestContext } from '../http/request-context.js';
import { Metrics } from '../metrics/metrics.js';
import { ANONYMOUS_ID, ANONYMOUS_QUOTAS } from '../plans/plans.js';
import { type Verdict, verdictOfUnused } from '../rate-limit/decision.js';
import { rateLimitHeaders } from '../rate-limit/headers.js';
import { RateLimiter } from '../rate-limit/rate-limiter.js';
import { readBearer } from './bearer.js';
import { ClientAddress } from './client-address.js';
import { INVALID_API_KEY, rejectionOf } from './rejection.js';

const USAGE_OF = { admitted: { admitted: 1 }, limited: { rejected: 1 }, banned: { banned: 1 } } as const;

/** Who sends a request. */
interface Caller {
  readonly account: Account;
  readonly error?: Error;
}

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
   * an error that prevents the decision is the rejection. The request is decided on return, unless that needs a round trip.
   * @returns why the request is rejected; undefined when it is admitted
   */
  async admit(req: IncomingMessage, context: RequestContext): Promise<Error | undefined> {
    try {
      const identified = this.#identify(req);
      const { account, error } = identified instanceof Promise ? await identified : identified;
      const isAnonymous = account.plan === 'anonymous';
      const store = isAnonymous ? this.limiter.addresses : this.limiter.keys;
      const counted = store.consume(account.id, account.quotas);
      const verdict = counted instanceof Promise ? await counted : counted;
      this.metrics.limiterDecisions.labels(account.plan, verdict.outcome).inc();
      this.usage.add(isAnonymous ? ANONYMOUS_ID : account.id, USAGE_OF[verdict.outcome]);
      return conclude(context, { account, error, verdict });
    } catch (error) {
      return conclude(context, { error: asError(error), verdict: this.unconsumed() });
    }
  }

  /** The verdict for a request that consumes no quota, such as a CORS preflight: that of an unused anonymous caller. */
  unconsumed(): Verdict {
    return verdictOfUnused(ANONYMOUS_QUOTAS, this.clock.now());
  }

  #identify(req: IncomingMessage): Caller | Promise<Caller> {
    const token = readBearer(req.headers.authorization);
    const network = (): string => this.clientAddress.networkOf(req);
    if (token instanceof Error) {
      return anonymous(network(), token);
    }
    const lookup = this.apiKeys.verify(token, network);
    if (!(lookup instanceof Promise)) {
      return lookup === undefined ? anonymous(network(), INVALID_API_KEY) : { account: lookup };
    }
    // Handled where it is awaited, if it is: not when the address cannot be read.
    lookup.catch(() => undefined);
    // Built before the look-up ends: a socket that the client resets meanwhile has no address.
    const invalid = anonymous(network(), INVALID_API_KEY);
    return lookup.then(
      (account) => (account === undefined ? invalid : { account }),
      (error: unknown) => {
        const account = this.apiKeys.lastKnown(token);
        if (account === undefined) {
          throw error;
        }
        return { account, error: asError(error) };
      },
    );
  }
}

function anonymous(network: string, error: Error): Caller {
  return { account: { id: network, plan: 'anonymous', quotas: ANONYMOUS_QUOTAS }, error };
}

function conclude(context: RequestContext, admission: Admission): Error | undefined {
  context.headers.push(...rateLimitHeaders(admission.verdict));
  context.admission = admission;
  return rejectionOf(admission);
}
