import { applyDecorators } from '@nestjs/common';
import { ApiBearerAuth, ApiHeader, ApiOperation, ApiParam, ApiResponse, getSchemaPath } from '@nestjs/swagger';
import { ApiCommonErrors, ApiError, BAD_REQUEST } from '../openapi/api-errors.js';
import { headers, LIMIT_HEADERS } from '../openapi/api-headers.js';
import { Order } from './order.schema.js';

const LIST_HEADERS = { ...LIMIT_HEADERS, ...headers('ETag') };

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
        'The response is streamed, however long it is. One whose connection breaks off is not complete and must be ' +
        'discarded. Send `Accept-Encoding: gzip` for a compressed response, and the `ETag` of the list that you have ' +
        'as `If-None-Match` to be answered 304, without a body, for as long as nothing has changed.',
    }),
    ApiHeader({
      name: 'If-None-Match',
      required: false,
      description: 'The `ETag` of a list that the client has; while it is current the answer is 304 without a body.',
      schema: { type: 'string', maxLength: 4_096, pattern: '^(\\*|[!-~ ]*)$' },
      example: 'W/"m4Yl3C0bQy1bJ5rXo9u3Rg"',
    }),
    ApiResponse({
      status: 200,
      description: 'All orders.',
      headers: LIST_HEADERS,
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
      description: 'The list that the client has is current: nothing has changed since. No body.',
      headers: LIST_HEADERS,
    }),
    ApiError(400, 'The request is malformed.', BAD_REQUEST),
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
        'Cancels an order with status `pending`; it stays in the list. An order that has already shipped cannot be ' +
        'cancelled (409), and neither can one that has been cancelled before (409 with a code of its own): when the ' +
        'answer to a cancel was lost, asking again tells whether it took effect.',
    }),
    ApiParam({
      name: 'orderId',
      required: true,
      description: 'The identifier of the order to cancel: a decimal int64 without leading zeros.',
      schema: { type: 'integer', format: 'int64' },
      example: 11,
    }),
    ApiResponse({ status: 204, description: 'Order cancelled.', headers: LIMIT_HEADERS }),
    ApiError(400, 'The order id is not a decimal int64, or the request is malformed.', {
      invalid_order_id: { when: 'the id is not a decimal int64' },
      ...BAD_REQUEST,
    }),
    ApiError(404, 'The order cannot be found.', {
      order_not_found: { when: 'no order has this id' },
    }),
    ApiError(409, 'The order cannot be cancelled because it has already shipped or has been cancelled before.', {
      order_already_shipped: { when: 'it has left the store' },
      order_already_cancelled: { when: 'it has been cancelled before, perhaps by your own request' },
    }),
    ApiCommonErrors(),
  );
