import { applyDecorators, Header } from '@nestjs/common';
import { API_SECURITY_HEADERS } from './security-headers.js';

/** Headers of a success that nobody may keep. Error answers say the same by themselves. */
export const NoStore = (): MethodDecorator =>
  applyDecorators(
    Header('Cache-Control', 'no-store'),
    ...API_SECURITY_HEADERS.map(([name, value]) => Header(name, value)),
  );
