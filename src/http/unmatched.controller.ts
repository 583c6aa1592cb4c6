import { All, Controller } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import { DomainError } from '../errors/domain-error.js';
import { API_VERSION } from './paths.js';

/** Every path under the version segment that no other controller has, so that the guards see it: 429 and 401 come before 404. */
@ApiExcludeController()
@Controller(API_VERSION)
export class UnmatchedController {
  /** @throws {DomainError} `route_not_found` */
  @All(['', '{*path}'])
  notFound(): never {
    throw new DomainError('route_not_found');
  }
}
