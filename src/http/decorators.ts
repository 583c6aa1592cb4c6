import { applyDecorators, createParamDecorator, type ExecutionContext, SetMetadata } from '@nestjs/common';
import { SkipThrottle } from '@nestjs/throttler';
import type { Request } from 'express';

/** The metadata by which `ApiKeyGuard` lets a request pass without a key. */
export const IS_PUBLIC = 'isPublic';

/** Opens a route to callers without a key and without limits: both guards skip it. Every route without it is closed. */
export const Public = (): ClassDecorator & MethodDecorator =>
  applyDecorators(SetMetadata(IS_PUBLIC, true), SkipThrottle());

/** The id of the key that a request was admitted with: what callers share is divided fairly by this id. */
export const CallerId = createParamDecorator((_data: unknown, context: ExecutionContext): string => {
  const { caller } = context.switchToHttp().getRequest<Request>();
  if (caller === undefined) {
    throw new TypeError('The request has not been admitted with a key.');
  }
  return caller.id;
});
