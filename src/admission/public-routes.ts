import { applyDecorators, type ExecutionContext, Injectable, SetMetadata } from '@nestjs/common';
import { CachedReflector } from './cached-reflector.js';

const IS_PUBLIC = 'petstore:public';

/** Opens a route to callers without a key and without limits. Every route without it is closed. */
export const Public = (): ClassDecorator & MethodDecorator => applyDecorators(SetMetadata(IS_PUBLIC, true));

/** Tells which routes are {@link Public}. */
@Injectable()
export class PublicRoutes {
  constructor(private readonly reflector: CachedReflector) {}

  isPublic(context: ExecutionContext): boolean {
    const targets = [context.getHandler(), context.getClass()];
    return this.reflector.getAllAndOverride(IS_PUBLIC, targets) === true;
  }
}
