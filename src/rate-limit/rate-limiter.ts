import { Inject, Injectable } from '@nestjs/common';
import type { Response } from 'express';
import { CLOCK, type Clock } from '../common/clock.js';
import { CONFIG, type Config } from '../config/config.js';
import { DatabaseListener } from '../database/database-listener.js';
import { API_KEY_UNBANNED_CHANNEL } from '../database/notification-channels.js';
import { DomainError } from '../errors/domain-error.js';
import { Metrics } from '../metrics/metrics.js';
import { ANONYMOUS_ID, ANONYMOUS_QUOTAS, type Caller } from '../plans/plans.js';
import { UsageRecorder } from '../usage/usage-recorder.js';
import { bindingWindow, type Verdict, verdictOfUnused } from './decision.js';
import { rateLimitHeaders } from './headers.js';
import { MemoryQuotaStore, type QuotaStore } from './memory-quota-store.js';

/** Injection token of the store that counts the requests of keys. */
export const KEY_QUOTA_STORE = Symbol('key quota store');

const USAGE_OF = { admitted: { admitted: 1 }, limited: { rejected: 1 }, banned: { banned: 1 } } as const;

/** Built once: they carry nothing of their request, and a stack trace for each would be a fifth of the cost of a rejection. */
const LIMITED = new DomainError('rate_limit_exceeded');
const KEY_BANNED = new DomainError('api_key_banned');
const ADDRESS_BANNED = new DomainError('address_banned');

/** Counts the requests of keys (in Redis if `REDIS_URL` is set) and of addresses (in memory), and rejects those over a limit. */
@Injectable()
export class RateLimiter {
  /** By the network of the address. A store of its own, so that a flood from many addresses evicts no key. */
  readonly #addresses: QuotaStore;

  constructor(
    @Inject(CLOCK) private readonly clock: Clock,
    @Inject(CONFIG) { ban: banRule }: Config,
    /** By the id of the key. */
    @Inject(KEY_QUOTA_STORE) private readonly keys: QuotaStore,
    listener: DatabaseListener,
    private readonly usage: UsageRecorder,
    private readonly metrics: Metrics,
  ) {
    this.#addresses = new MemoryQuotaStore({ clock, banRule, bans: metrics.bans.labels('address') });
    listener.on(API_KEY_UNBANNED_CHANNEL, (keyId) => {
      keys.liftBan(keyId);
    });
  }

  /**
   * Counts a request against its caller, and sets the rate-limit headers of its response.
   * @throws {DomainError} (by rejection) `rate_limit_exceeded`, `api_key_banned` or `address_banned`
   */
  async enforce({ id, plan, quotas }: Caller, res: Response): Promise<void> {
    const isAnonymous = plan === 'anonymous';
    const verdict = await (isAnonymous ? this.#addresses : this.keys).consume(id, quotas);
    this.metrics.limiterDecisions.labels(plan, verdict.outcome).inc();
    this.usage.add(isAnonymous ? ANONYMOUS_ID : id, USAGE_OF[verdict.outcome]);
    setRateLimitHeaders(res, verdict);
    if (verdict.outcome === 'limited') {
      res.req.rejection = bindingWindow(verdict) === verdict.minute ? 'per_minute' : 'per_day';
      throw LIMITED;
    }
    if (verdict.outcome === 'banned') {
      res.req.rejection = 'banned';
      throw isAnonymous ? ADDRESS_BANNED : KEY_BANNED;
    }
  }

  /**
   * Sets the headers of a caller without requests: those of a response to a request that is not counted, such as a CORS preflight. Without a
   * verified key they are those of an anonymous caller.
   */
  setFullQuotaHeaders(res: Response): void {
    setRateLimitHeaders(res, verdictOfUnused(res.req.caller?.quotas ?? ANONYMOUS_QUOTAS, this.clock.now()));
  }
}

function setRateLimitHeaders(res: Response, verdict: Verdict): void {
  for (const [name, value] of rateLimitHeaders(verdict)) {
    res.setHeader(name, value);
  }
}
