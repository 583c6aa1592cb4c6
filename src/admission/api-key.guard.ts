import type { IncomingMessage } from 'node:http';
import {
  applyDecorators,
  type CanActivate,
  createParamDecorator,
  type ExecutionContext,
  Injectable,
  SetMetadata,
} from '@nestjs/common';
import { RequestContext } from '../http/request-context.js';
import { AdmissionService } from './admission.service.js';
import { CachedReflector } from './cached-reflector.js';

const IS_PUBLIC = 'petstore:public';

/** Opens a route to callers without a key and without limits. Every route without it is closed. */
export const Public = (): ClassDecorator & MethodDecorator => applyDecorators(SetMetadata(IS_PUBLIC, true));

export function isPublic(context: ExecutionContext, reflector: CachedReflector): boolean {
  return reflector.getAllAndOverride(IS_PUBLIC, [context.getHandler(), context.getClass()]) === true;
}

/** The id of the key that a request was admitted with: what is bounded for all is shared fairly between these. */
export const CallerId = createParamDecorator((_data: unknown, context: ExecutionContext): string => {
  const caller = RequestContext.of(context.switchToHttp().getRequest<IncomingMessage>())?.admission?.caller;
  if (caller?.kind !== 'key') {
    throw new TypeError('The request has not been admitted with a key.');
  }
  return caller.key.id;
});

/** Admits requests with a valid API key. Runs after the limits, so that failed attempts are counted. */
@Injectable()
export class ApiKeyGuard implements CanActivate {
  constructor(
    private readonly reflector: CachedReflector,
    private readonly admission: AdmissionService,
  ) {}

  /** @throws {DomainError} `missing_api_key`, `invalid_api_key`, or `service_unavailable` when the key cannot be verified */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    if (isPublic(context, this.reflector)) {
      return true;
    }
    const rejection = await this.admission.admit(context.switchToHttp().getRequest<IncomingMessage>());
    if (rejection !== undefined) {
      throw rejection.error;
    }
    return true;
  }
}
