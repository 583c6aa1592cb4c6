import { All, Controller, Delete, Get, Param, Req, Res } from '@nestjs/common';
import { ApiExcludeEndpoint, ApiExtraModels, ApiTags } from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { CallerId } from '../admission/admission.guards.js';
import { ORDERS_PATH } from '../http/paths.js';
import { sendNoContent } from '../http/response.js';
import { ErrorSchema } from '../openapi/error.schema.js';
import { DomainError } from '../errors/domain-error.js';
import { Order } from './order.schema.js';
import { ApiCancelOrder, ApiListOrders } from './orders.api.js';
import { OrderIdPipe } from './order-id.pipe.js';
import { OrderListResponder } from './list/order-list.responder.js';
import { OrdersService } from './orders.service.js';

@ApiTags('store')
@ApiExtraModels(Order, ErrorSchema)
@Controller(ORDERS_PATH)
export class OrdersController {
  constructor(
    private readonly orders: OrdersService,
    private readonly list: OrderListResponder,
  ) {}

  /** Also for HEAD, which Express routes like GET. */
  @Get()
  @ApiListOrders()
  async listOrders(@Req() req: Request, @Res() res: Response, @CallerId() caller: string): Promise<void> {
    await this.list.respond(req, res, caller);
  }

  @Delete(':orderId')
  @ApiCancelOrder()
  async cancelOrder(
    @Param('orderId', OrderIdPipe) id: bigint,
    @Res() res: Response,
    @CallerId() caller: string,
  ): Promise<void> {
    await this.orders.cancel(id, caller);
    sendNoContent(res);
  }

  @All()
  @ApiExcludeEndpoint()
  rejectMethodOnList(@Res({ passthrough: true }) res: Response): never {
    return rejectMethod(res, 'GET, HEAD');
  }

  @All(':orderId')
  @ApiExcludeEndpoint()
  rejectMethodOnOrder(@Res({ passthrough: true }) res: Response): never {
    return rejectMethod(res, 'DELETE');
  }
}

/** RFC 9110 section 15.5.6: a 405 lists the methods that the resource supports. */
function rejectMethod(res: Response, allow: string): never {
  res.setHeader('Allow', allow);
  throw new DomainError('method_not_allowed', `This path supports ${allow} only.`);
}
