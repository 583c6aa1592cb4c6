import { All, Controller, Delete, Get, HttpCode, Param, Req, Res } from '@nestjs/common';
import { ApiBearerAuth, ApiExcludeEndpoint, ApiTags } from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { DomainError } from '../errors/domain-error.js';
import { CallerId } from '../http/decorators.js';
import { ORDERS_PATH } from '../http/paths.js';
import { OrderListResponder } from './list/order-list.responder.js';
import { OrderIdPipe } from './order-id.pipe.js';
import { ApiCancelOrder, ApiListOrders } from './orders.api.js';
import { OrdersService } from './orders.service.js';

/** The operations of the interface. */
@ApiTags('store')
@ApiBearerAuth()
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
  @HttpCode(204)
  @ApiCancelOrder()
  async cancelOrder(@Param('orderId', OrderIdPipe) id: bigint, @CallerId() caller: string): Promise<void> {
    await this.orders.cancel(id, caller);
  }

  /** RFC 9110 section 15.5.6: a 405 lists the methods that the resource supports. */
  @ApiExcludeEndpoint()
  @All(['', ':orderId'])
  rejectMethod(@Param('orderId') id: string | undefined, @Res({ passthrough: true }) res: Response): never {
    const allow = id === undefined ? 'GET, HEAD' : 'DELETE';
    res.setHeader('Allow', allow);
    throw new DomainError('method_not_allowed', `This path supports ${allow} only.`);
  }
}
