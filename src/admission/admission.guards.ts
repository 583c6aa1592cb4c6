import type { IncomingMessage } from 'node:http';
import { type CanActivate, createParamDecorator, type ExecutionContext, Injectable } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { ThrottlerGuard } from '@nestjs/throttler';
import { type Admission, RequestContext } from '../http/request-context.js';
import { rejectionOf } from './rejection.js';

/** Opens a route outside of `/v1` to callers without a key and without limits. Every route without it is closed. */
export const Public = Reflector.createDecorator({ transform: () => true });

/** What was decided about a request when it arrived; undefined outside of `/v1`. */
function admissionIn(context: ExecutionContext): Admission | undefined {
  return RequestContext.of(context.switchToHttp().getRequest<IncomingMessage>())?.admission;
}

/** The id of the key that a request was admitted with: shared slots are divided fairly by this id. */
export const CallerId = createParamDecorator((_data: unknown, context: ExecutionContext): string => {
  const { account, error } = admissionIn(context) ?? {};
  if (account === undefined || error !== undefined) {
    throw new TypeError('The request has not been admitted with a key.');
  }
  return account.id;
});

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
    // What rejects the caller itself is for the guard of the key.
    return rejection === undefined || rejection === admission?.error
      ? Promise.resolve(true)
      : Promise.reject(rejection);
  }
}

/**
 * Lets only requests pass that were admitted with a valid API key when they arrived. A second check: the others have got their
 * response by then. A route that is neither public nor under `/v1`, where keys are checked, is closed to everybody.
 */
@Injectable()
export class ApiKeyGuard implements CanActivate {
  constructor(private readonly reflector: Reflector) {}

  /** @throws {DomainError} `missing_api_key`, `invalid_api_key`, or `service_unavailable` when the key cannot be verified */
  canActivate(context: ExecutionContext): boolean {
    const admission = admissionIn(context);
    const rejection = admission && rejectionOf(admission);
    if (rejection !== undefined) {
      throw rejection;
    }
    const route = [context.getHandler(), context.getClass()];
    if (admission === undefined && !this.reflector.getAllAndOverride(Public, route)) {
      throw new TypeError('The route is neither public nor under /v1, where keys are checked.');
    }
    return true;
  }
}
