import type { IncomingMessage } from 'node:http';
import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { admissionOf } from './admission.service.js';

/** The id of the key that a request was admitted with: what is bounded for all is shared fairly between these. */
export const CallerId = createParamDecorator((_data: unknown, context: ExecutionContext): string => {
  const caller = admissionOf(context.switchToHttp().getRequest<IncomingMessage>())?.caller;
  if (caller?.kind !== 'key') {
    throw new TypeError('The request has not been admitted with a key.');
  }
  return caller.key.id;
});
