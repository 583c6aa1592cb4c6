import { All, Controller } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import { DomainError } from '../errors/domain-error.js';
import { API_VERSION } from '../http/api-path.js';

/**
 * Every path under the version segment that matches no operation. Guards run for routes only, and limits and key come
 * before everything else, so these paths need a route too. Registered after all others.
 */
@ApiExcludeController()
@Controller(API_VERSION)
export class UnmatchedController {
  @All(['', '*path'])
  rejectPath(): never {
    throw DomainError.of('route_not_found');
  }
}
