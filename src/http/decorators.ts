import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { Request } from 'express';

/** Opens a route to callers without a key and without limits. Every route without it is closed. */
export const Public = Reflector.createDecorator<undefined, true | undefined>({ transform: () => true });

export function isPublic(reflector: Reflector, context: ExecutionContext): boolean {
  return reflector.getAllAndOverride(Public, [context.getHandler(), context.getClass()]) ?? false;
}

/** The id of the key that a request was admitted with: what callers share is divided fairly by this id. */
export const CallerId = createParamDecorator((_data: unknown, context: ExecutionContext): string => {
  const { caller } = context.switchToHttp().getRequest<Request>();
  if (caller === undefined) {
    throw new TypeError('The request has not been admitted with a key.');
  }
  return caller.id;
});
