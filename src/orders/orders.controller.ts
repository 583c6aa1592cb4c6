import { Controller, Delete, Get, Head, Param, Req, Res } from '@nestjs/common';
import { ApiExcludeEndpoint, ApiTags } from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { answerNoContent } from '../http/answer.js';
import { API_VERSION } from '../http/api-path.js';
import { ApiCancelOrder, ApiListOrders } from './orders.api.js';
import { OrderIdPipe } from './order-id.pipe.js';
import { OrderListResponder } from './order-list.responder.js';
import { OrdersService } from './orders.service.js';

@ApiTags('store')
@Controller(`${API_VERSION}/store/orders`)
export class OrdersController {
  constructor(
    private readonly orders: OrdersService,
    private readonly list: OrderListResponder,
  ) {}

  @Head()
  @ApiExcludeEndpoint()
  async describeOrderList(@Req() req: Request, @Res() res: Response): Promise<void> {
    await this.list.respond(req, res);
  }

  @Get()
  @ApiListOrders()
  async listOrders(@Req() req: Request, @Res() res: Response): Promise<void> {
    await this.list.respond(req, res);
  }

  @Delete(':orderId')
  @ApiCancelOrder()
  async cancelOrder(@Param('orderId', OrderIdPipe) id: bigint, @Res() res: Response): Promise<void> {
    await this.orders.cancel(id);
    answerNoContent(res);
  }
}
