import { Inject, Injectable } from '@nestjs/common';
import { ThrottlerGuard, type ThrottlerRequest } from '@nestjs/throttler';
import type { Request, Response } from 'express';
import { RateLimiter } from './rate-limiter.js';

/**
 * The throttler with the limits of the caller's plan (`plans/plans.ts`). Its storage counts one window at a time, by one limit. Here
 * ban, minute and day are decided at once (`decision.ts`), and a rejected request consumes nothing in either window. Requests without a
 * valid key do not get here: `ApiKeyGuard` counts and rejects them.
 */
@Injectable()
export class PlanThrottlerGuard extends ThrottlerGuard {
  @Inject(RateLimiter) private readonly limiter!: RateLimiter;

  /**
   * Counts the request against its key, once, because one throttler is configured.
   * @throws {DomainError} (by rejection) `rate_limit_exceeded` or `api_key_banned`
   */
  protected override async handleRequest({ context }: ThrottlerRequest): Promise<boolean> {
    const http = context.switchToHttp();
    const { caller } = http.getRequest<Request>();
    if (caller === undefined) {
      throw new TypeError('The request has no caller: ApiKeyGuard comes first.');
    }
    await this.limiter.enforce(caller, http.getResponse<Response>());
    return true;
  }
}
