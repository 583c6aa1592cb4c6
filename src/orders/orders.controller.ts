import { All, Controller, Delete, Get, Param, type PipeTransform, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import { CallerId } from '../admission/admission.guards.js';
import { ORDERS_PATH } from '../http/paths.js';
import { sendNoContent } from '../http/response.js';
import { DomainError } from '../errors/domain-error.js';
import { parseOrderId } from './order-id.js';
import { OrderListResponder } from './list/order-list.responder.js';
import { OrdersService } from './orders.service.js';

/** Validates and parses the path parameter `orderId`. */
const ORDER_ID: PipeTransform<string, bigint> = {
  /** @throws {DomainError} `invalid_order_id` */
  transform: (text) => {
    const id = parseOrderId(text);
    if (id === undefined) {
      throw new DomainError('invalid_order_id');
    }
    return id;
  },
};

/** The operations of the interface; `openapi/order-operations.ts` describes them. */
@Controller(ORDERS_PATH)
export class OrdersController {
  constructor(
    private readonly orders: OrdersService,
    private readonly list: OrderListResponder,
  ) {}

  /** Also for HEAD, which Express routes like GET. */
  @Get()
  async listOrders(@Req() req: Request, @Res() res: Response, @CallerId() caller: string): Promise<void> {
    await this.list.respond(req, res, caller);
  }

  @Delete(':orderId')
  async cancelOrder(
    @Param('orderId', ORDER_ID) id: bigint,
    @Res() res: Response,
    @CallerId() caller: string,
  ): Promise<void> {
    await this.orders.cancel(id, caller);
    sendNoContent(res);
  }

  /** RFC 9110 section 15.5.6: a 405 lists the methods that the resource supports. */
  @All(['', ':orderId'])
  rejectMethod(@Param('orderId') id: string | undefined, @Res({ passthrough: true }) res: Response): never {
    const allow = id === undefined ? 'GET, HEAD' : 'DELETE';
    res.setHeader('Allow', allow);
    throw new DomainError('method_not_allowed', `This path supports ${allow} only.`);
  }
}
