import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ExecutionContext, Injectable } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import {
  InjectThrottlerOptions,
  InjectThrottlerStorage,
  ThrottlerGuard,
  type ThrottlerModuleOptions,
  type ThrottlerStorage,
} from '@nestjs/throttler';
import { keepLimitHeaders } from '../http/answer.js';
import { isPromise } from '../is-promise.js';
import { AdmissionService } from './admission.service.js';
import type { Admission } from './caller.js';
import { refusalByLimits } from './refusal.js';

/** Where `@SkipThrottle()` leaves its mark for the default throttler; the library does not export the name. */
const SKIP_METADATA = 'THROTTLER:SKIPdefault';

/** One promise for all, since most requests are allowed and none waits for it. */
const ALLOWED = Promise.resolve(true);

/**
 * Applies the plan limits inside the throttler's frame (module, guard, `@SkipThrottle()`), with its decision replaced:
 * the library's guard counts windows one after the other, per handler, and leaves the headers off its 429.
 * Headers first, verdict after.
 */
@Injectable()
export class PlanThrottlerGuard extends ThrottlerGuard {
  readonly #skipped = new WeakMap<object, boolean>();

  constructor(
    @InjectThrottlerOptions() options: ThrottlerModuleOptions,
    @InjectThrottlerStorage() storage: ThrottlerStorage,
    reflector: Reflector,
    private readonly admission: AdmissionService,
  ) {
    super(options, storage, reflector);
  }

  /** @throws {DomainError} `rate_limit_exceeded`, `api_key_banned` or `address_banned` */
  override canActivate(context: ExecutionContext): Promise<boolean> {
    if (this.#isSkipped(context)) {
      return ALLOWED;
    }
    const http = context.switchToHttp();
    const res = http.getResponse<ServerResponse>();
    const admission = this.admission.admit(http.getRequest<IncomingMessage>());
    return isPromise(admission) ? admission.then((settled) => apply(settled, res)) : apply(admission, res);
  }

  /** What `@SkipThrottle()` says of a handler or its class never changes, so it is looked up once. */
  #isSkipped(context: ExecutionContext): boolean {
    const handler = context.getHandler();
    let skipped = this.#skipped.get(handler);
    if (skipped === undefined) {
      skipped =
        this.reflector.getAllAndOverride<boolean | undefined>(SKIP_METADATA, [handler, context.getClass()]) === true;
      this.#skipped.set(handler, skipped);
    }
    return skipped;
  }
}

function apply(admission: Admission, res: ServerResponse): Promise<boolean> {
  keepLimitHeaders(res, admission.verdict);
  const refusal = refusalByLimits(admission);
  if (refusal !== undefined) {
    throw refusal;
  }
  return ALLOWED;
}
