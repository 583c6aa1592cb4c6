import { applyDecorators, SetMetadata } from '@nestjs/common';
import { SkipThrottle } from '@nestjs/throttler';

export const IS_PUBLIC = 'petstore:public';

/** Opens a route to callers without a key and without limits. Every route that does not say so is closed. */
export const Public = (): ClassDecorator & MethodDecorator =>
  applyDecorators(SetMetadata(IS_PUBLIC, true), SkipThrottle());
