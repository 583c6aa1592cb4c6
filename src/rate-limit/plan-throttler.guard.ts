import type { IncomingMessage, ServerResponse } from 'node:http';
import { Injectable } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import {
  InjectThrottlerOptions,
  InjectThrottlerStorage,
  ThrottlerGuard,
  type ThrottlerModuleOptions,
  type ThrottlerRequest,
  type ThrottlerStorage,
} from '@nestjs/throttler';
import { AdmissionService } from './admission.service.js';
import { rateLimitHeaders } from './headers.js';
import { refusalByLimits } from './refusal.js';

/**
 * Applies the plan limits inside the throttler's frame (module, guard, `@SkipThrottle()`), with its decision replaced:
 * the library's guard counts windows one after the other, per handler, and leaves the headers off its 429.
 * Headers first, verdict after.
 */
@Injectable()
export class PlanThrottlerGuard extends ThrottlerGuard {
  constructor(
    @InjectThrottlerOptions() options: ThrottlerModuleOptions,
    @InjectThrottlerStorage() storage: ThrottlerStorage,
    reflector: Reflector,
    private readonly admission: AdmissionService,
  ) {
    super(options, storage, reflector);
  }

  /** @throws {DomainError} `rate_limit_exceeded`, `api_key_banned` or `address_banned` */
  protected override async handleRequest({ context }: ThrottlerRequest): Promise<boolean> {
    const http = context.switchToHttp();
    const admission = await this.admission.admit(http.getRequest<IncomingMessage>());
    const res = http.getResponse<ServerResponse>();
    for (const [name, value] of rateLimitHeaders(admission.verdict)) {
      res.setHeader(name, value);
    }
    const refusal = refusalByLimits(admission);
    if (refusal !== undefined) {
      throw refusal;
    }
    return true;
  }
}
