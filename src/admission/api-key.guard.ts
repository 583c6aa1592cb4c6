import type { IncomingMessage, ServerResponse } from 'node:http';
import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { isPromise } from '../common/is-promise.js';
import type { Rejection } from './admission.js';
import { AdmissionService } from './admission.service.js';
import { PublicRoutes } from './public-routes.js';

/** Admits requests with a valid API key. Runs after the limits, so that failed attempts are counted. */
@Injectable()
export class ApiKeyGuard implements CanActivate {
  constructor(
    private readonly publicRoutes: PublicRoutes,
    private readonly admission: AdmissionService,
  ) {}

  /** @throws {DomainError} `missing_api_key`, `invalid_api_key`, or `service_unavailable` when the key cannot be verified */
  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    if (this.publicRoutes.isPublic(context)) {
      return true;
    }
    const http = context.switchToHttp();
    const rejection = this.admission.check(http.getRequest<IncomingMessage>(), http.getResponse<ServerResponse>());
    return isPromise(rejection) ? rejection.then(throwIfRejected) : throwIfRejected(rejection);
  }
}

function throwIfRejected(rejection: Rejection | undefined): true {
  if (rejection !== undefined) {
    throw rejection.error;
  }
  return true;
}
