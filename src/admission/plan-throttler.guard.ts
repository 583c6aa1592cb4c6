import type { IncomingMessage } from 'node:http';
import { type ExecutionContext, Injectable } from '@nestjs/common';
import {
  InjectThrottlerOptions,
  InjectThrottlerStorage,
  ThrottlerGuard,
  type ThrottlerModuleOptions,
  type ThrottlerRequest,
  type ThrottlerStorage,
} from '@nestjs/throttler';
import { AdmissionService } from './admission.service.js';
import { isPublic } from './api-key.guard.js';
import { CachedReflector } from './cached-reflector.js';

/**
 * The throttler with the limits of the caller's plan. It decides ban, minute and day together. The library would count the
 * windows separately for each handler, and send its 429 without rate-limit headers.
 */
@Injectable()
export class PlanThrottlerGuard extends ThrottlerGuard {
  constructor(
    @InjectThrottlerOptions() options: ThrottlerModuleOptions,
    @InjectThrottlerStorage() storage: ThrottlerStorage,
    private readonly cachedReflector: CachedReflector,
    private readonly admission: AdmissionService,
  ) {
    super(options, storage, cachedReflector);
  }

  protected override shouldSkip(context: ExecutionContext): Promise<boolean> {
    return Promise.resolve(isPublic(context, this.cachedReflector));
  }

  /** @throws {DomainError} `rate_limit_exceeded`, `api_key_banned` or `address_banned` */
  protected override async handleRequest({ context }: ThrottlerRequest): Promise<boolean> {
    const rejection = await this.admission.admit(context.switchToHttp().getRequest<IncomingMessage>());
    if (rejection?.by === 'limits') {
      throw rejection.error;
    }
    return true;
  }
}
