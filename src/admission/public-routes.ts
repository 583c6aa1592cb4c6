import { applyDecorators, type ExecutionContext, Injectable, SetMetadata } from '@nestjs/common';
import { Reflector } from '@nestjs/core';

const IS_PUBLIC = 'petstore:public';

/** Opens a route to callers without a key and without limits. Every route without it is closed. */
export const Public = (): ClassDecorator & MethodDecorator => applyDecorators(SetMetadata(IS_PUBLIC, true));

/** Tells which routes are {@link Public}. Looked up once per handler, because decorators never change. */
@Injectable()
export class PublicRoutes {
  readonly #cache = new WeakMap<object, boolean>();

  constructor(private readonly reflector: Reflector) {}

  isPublic(context: ExecutionContext): boolean {
    const handler = context.getHandler();
    let isPublic = this.#cache.get(handler);
    if (isPublic === undefined) {
      isPublic =
        this.reflector.getAllAndOverride<boolean | undefined>(IS_PUBLIC, [handler, context.getClass()]) === true;
      this.#cache.set(handler, isPublic);
    }
    return isPublic;
  }
}
