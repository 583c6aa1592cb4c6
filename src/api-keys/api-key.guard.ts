import type { IncomingMessage } from 'node:http';
import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { isPromise } from '../is-promise.js';
import { AdmissionService } from '../rate-limit/admission.service.js';
import type { Admission } from '../rate-limit/caller.js';
import { refusalByKey } from '../rate-limit/refusal.js';
import { IS_PUBLIC } from './public.decorator.js';

/** Lets a request in that carries a valid API key. Runs after the limits, so that failed attempts are counted. */
@Injectable()
export class ApiKeyGuard implements CanActivate {
  readonly #isPublic = new WeakMap<object, boolean>();

  constructor(
    private readonly reflector: Reflector,
    private readonly admission: AdmissionService,
  ) {}

  /** @throws {DomainError} `missing_api_key`, `invalid_api_key`, or `service_unavailable` when the key could not be checked */
  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    if (this.#isOpen(context)) {
      return true;
    }
    const admission = this.admission.admit(context.switchToHttp().getRequest<IncomingMessage>());
    return isPromise(admission) ? admission.then(apply) : apply(admission);
  }

  /** What `@Public()` says of a handler or its class never changes, so it is looked up once. */
  #isOpen(context: ExecutionContext): boolean {
    const handler = context.getHandler();
    let isPublic = this.#isPublic.get(handler);
    if (isPublic === undefined) {
      isPublic =
        this.reflector.getAllAndOverride<boolean | undefined>(IS_PUBLIC, [handler, context.getClass()]) === true;
      this.#isPublic.set(handler, isPublic);
    }
    return isPublic;
  }
}

function apply(admission: Admission): true {
  const refusal = refusalByKey(admission);
  if (refusal !== undefined) {
    throw refusal;
  }
  return true;
}
