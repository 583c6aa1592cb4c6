import { All, Controller, Res } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import type { Response } from 'express';
import { DomainError } from '../errors/domain-error.js';
import { API_VERSION } from './api-path.js';

/**
 * Everything under the version segment that no operation answers. Guards do not run for paths without a route, and
 * limits and keys come before everything else, so these are routes. Registered after all others.
 */
@ApiExcludeController()
@Controller(API_VERSION)
export class UnmatchedController {
  @All('store/orders')
  refuseMethodOnOrders(@Res({ passthrough: true }) res: Response): never {
    return refuseMethod(res, 'GET, HEAD');
  }

  @All('store/orders/:orderId')
  refuseMethodOnOrder(@Res({ passthrough: true }) res: Response): never {
    return refuseMethod(res, 'DELETE');
  }

  @All(['', '*path'])
  refusePath(): never {
    throw DomainError.of('route_not_found');
  }
}

/** RFC 9110 section 15.5.6: a 405 names the methods that are allowed. */
function refuseMethod(res: Response, allow: string): never {
  res.setHeader('Allow', allow);
  throw new DomainError('method_not_allowed', `This path answers to ${allow} only.`);
}
