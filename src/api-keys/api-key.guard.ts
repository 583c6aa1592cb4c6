import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { Request, Response } from 'express';
import { DomainError } from '../errors/domain-error.js';
import { IS_PUBLIC } from '../http/decorators.js';
import { ANONYMOUS_QUOTAS } from '../plans/plans.js';
import { clientNetworkOf } from '../rate-limit/client-address.js';
import { RateLimiter } from '../rate-limit/rate-limiter.js';
import { ApiKeysService } from './api-keys.service.js';
import { INVALID_API_KEY, readBearer } from './key.js';

/**
 * Lets only requests with a valid API key pass, and attaches the key as their caller. The others are counted here, and limits come
 * first: an address that is over its limit or banned does not learn whether its guesses exist.
 */
@Injectable()
export class ApiKeyGuard implements CanActivate {
  constructor(
    private readonly reflector: Reflector,
    private readonly apiKeys: ApiKeysService,
    private readonly limiter: RateLimiter,
  ) {}

  /**
   * @throws {DomainError} (by rejection) `rate_limit_exceeded` or `address_banned`; otherwise `missing_api_key`, `invalid_api_key`
   * (unknown, revoked and expired keys alike), or `service_unavailable` when the key cannot be verified, which counts against nobody
   */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    if (this.reflector.getAllAndOverride<true | undefined>(IS_PUBLIC, [context.getHandler(), context.getClass()])) {
      return true;
    }
    const http = context.switchToHttp();
    const [req, res] = [http.getRequest<Request>(), http.getResponse<Response>()];
    // Before the look-up: a socket that the client resets meanwhile has no address.
    const address = clientNetworkOf(req);
    const token = readBearer(req.headers.authorization);
    const key = token instanceof DomainError ? token : ((await this.apiKeys.verify(token)) ?? INVALID_API_KEY);
    if (key instanceof DomainError) {
      await this.limiter.enforce({ id: address, plan: 'anonymous', quotas: ANONYMOUS_QUOTAS }, res);
      throw key;
    }
    req.caller = key;
    return true;
  }
}
