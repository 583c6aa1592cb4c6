import { type ExecutionContext, Injectable } from '@nestjs/common';
import { ThrottlerGuard } from '@nestjs/throttler';
import { admissionIn } from './api-key.guard.js';
import { rejectionOf } from './rejection.js';

/**
 * The throttler with the limits of the caller's plan: ban, minute and day were decided together when the request arrived. The
 * library would count each handler apart and send its 429 without rate-limit headers, so its own windows are skipped.
 */
@Injectable()
export class PlanThrottlerGuard extends ThrottlerGuard {
  /** @throws {DomainError} (by rejection) `rate_limit_exceeded`, `api_key_banned` or `address_banned` */
  protected override shouldSkip(context: ExecutionContext): Promise<boolean> {
    const admission = admissionIn(context);
    const rejection = admission && rejectionOf(admission);
    return rejection?.by === 'limits' ? Promise.reject(rejection.error) : Promise.resolve(true);
  }
}
