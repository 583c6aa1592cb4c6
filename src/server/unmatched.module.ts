import { All, Controller, Module } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import { DomainError } from '../errors/domain-error.js';
import { API_VERSION } from '../http/api-path.js';

/** Every path under the version segment that matches no operation. It needs a route, because guards run for routes only. */
@ApiExcludeController()
@Controller(API_VERSION)
class UnmatchedController {
  @All(['', '*path'])
  rejectPath(): never {
    throw DomainError.of('route_not_found');
  }
}

/** Import it after all other modules, because its route matches every path. */
@Module({ controllers: [UnmatchedController] })
export class UnmatchedModule {}
