import { applyDecorators } from '@nestjs/common';
import { ApiBearerAuth, ApiHeader, ApiOperation, ApiParam, ApiResponse, getSchemaPath } from '@nestjs/swagger';
import { ApiCommonErrors, ApiError, LIMIT_HEADERS } from '../docs/api-answers.js';
import { Order } from './order.schema.js';

const ETAG_HEADER = {
  ETag: {
    required: true,
    description: 'Names the state of the list; send it back in `If-None-Match` to be told when nothing has changed.',
    schema: { type: 'string' as const, maxLength: 100, example: 'W/"m4Yl3C0bQy1bJ5rXo9u3Rg"' },
  },
};

/** `GET /store/orders` as documented. */
export const ApiListOrders = (): MethodDecorator =>
  applyDecorators(
    ApiBearerAuth(),
    ApiOperation({
      operationId: 'listOrders',
      summary: 'List orders',
      description:
        'Returns all orders placed in the store (pending, shipped and cancelled) in a single response, by ascending id, ' +
        'as one consistent snapshot. Filtering and pagination are not supported; they are planned for v2.\n\n' +
        'The response is streamed. A response whose connection breaks off is not complete and must be discarded. ' +
        'Send `Accept-Encoding: gzip` for a compressed response.',
    }),
    ApiHeader({
      name: 'If-None-Match',
      required: false,
      description: 'The `ETag` of a list that the client has; while it is current the answer is 304 without a body.',
      schema: { type: 'string', maxLength: 4_096 },
    }),
    ApiResponse({
      status: 200,
      description: 'All orders.',
      headers: { ...LIMIT_HEADERS, ...ETAG_HEADER },
      content: {
        'application/json': {
          schema: { type: 'array', items: { $ref: getSchemaPath(Order) } },
          example: [
            { id: 10, petId: 198772, quantity: 2, shipDate: '2026-11-21T09:30:00.000Z', complete: true },
            { id: 11, petId: 198773, quantity: 1, complete: false },
          ],
        },
      },
    }),
    ApiResponse({
      status: 304,
      description: 'The list that the client has is current.',
      headers: { ...LIMIT_HEADERS, ...ETAG_HEADER },
    }),
    ApiCommonErrors(),
  );

/** `DELETE /store/orders/{orderId}` as documented. */
export const ApiCancelOrder = (): MethodDecorator =>
  applyDecorators(
    ApiBearerAuth(),
    ApiOperation({
      operationId: 'cancelOrder',
      summary: 'Cancel an order',
      description:
        'Cancels an order with status `pending`. An order that has already shipped cannot be cancelled. ' +
        'The order stays in the list.',
    }),
    ApiParam({
      name: 'orderId',
      required: true,
      description: 'The identifier of the order to cancel: a decimal int64 without leading zeros.',
      schema: { type: 'integer', format: 'int64' },
      example: 11,
    }),
    ApiResponse({ status: 204, description: 'Order cancelled.', headers: LIMIT_HEADERS }),
    ApiError(400, 'The order id is not a decimal int64.', {
      invalid_order_id:
        'The order id must be a decimal integer from -9223372036854775808 to 9223372036854775807, without leading zeros.',
    }),
    ApiError(404, 'The order cannot be found.', { order_not_found: 'There is no order with this id.' }),
    ApiError(409, 'The order cannot be cancelled because it has already shipped or has been cancelled before.', {
      order_already_shipped: 'The order has already shipped and cannot be cancelled.',
      order_already_cancelled: 'The order has already been cancelled.',
    }),
    ApiCommonErrors(),
  );
