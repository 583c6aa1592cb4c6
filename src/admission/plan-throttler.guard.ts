import type { IncomingMessage, ServerResponse } from 'node:http';
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
import { CachedReflector } from './cached-reflector.js';
import { PublicRoutes } from './public-routes.js';

/**
 * The throttler with the limits of the caller's plan. It decides ban, minute and day together. The library would count the
 * windows separately for each handler, and send its 429 without rate-limit headers.
 */
@Injectable()
export class PlanThrottlerGuard extends ThrottlerGuard {
  constructor(
    @InjectThrottlerOptions() options: ThrottlerModuleOptions,
    @InjectThrottlerStorage() storage: ThrottlerStorage,
    reflector: CachedReflector,
    private readonly publicRoutes: PublicRoutes,
    private readonly admission: AdmissionService,
  ) {
    super(options, storage, reflector);
  }

  protected override shouldSkip(context: ExecutionContext): Promise<boolean> {
    return Promise.resolve(this.publicRoutes.isPublic(context));
  }

  /** @throws {DomainError} `rate_limit_exceeded`, `api_key_banned` or `address_banned` */
  protected override async handleRequest({ context }: ThrottlerRequest): Promise<boolean> {
    const http = context.switchToHttp();
    const rejection = await this.admission.check(
      http.getRequest<IncomingMessage>(),
      http.getResponse<ServerResponse>(),
    );
    if (rejection?.by === 'limits') {
      throw rejection.error;
    }
    return true;
  }
}
