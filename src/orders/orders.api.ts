import { applyDecorators } from '@nestjs/common';
import {
  ApiExtraModels,
  ApiHeader,
  ApiNoContentResponse,
  ApiNotModifiedResponse,
  ApiOkResponse,
  ApiOperation,
  ApiParam,
} from '@nestjs/swagger';
import { ApiCommonErrors, ApiError, COMMON_HEADERS, ErrorSchema, headers } from '../openapi/api-responses.js';
import { Order } from './order.dto.js';

const LIST_HEADERS = { ...COMMON_HEADERS, ...headers('ETag') };

/** Describes `GET /store/orders`. */
export const ApiListOrders = (): MethodDecorator =>
  applyDecorators(
    ApiExtraModels(Order, ErrorSchema),
    ApiOperation({
      operationId: 'listOrders',
      summary: 'List orders',
      description:
        'Returns all orders placed in the store (pending, shipped and cancelled) in a single response, by ascending id, ' +
        'as one consistent snapshot. Filtering and pagination are not supported; they are planned for v2.\n\n' +
        'The response is streamed. If the connection closes before the end, discard the incomplete response. Send ' +
        '`Accept-Encoding: gzip` for a compressed response, and the `ETag` of your latest list in `If-None-Match` to ' +
        'get 304 without a body while the list is unchanged.',
    }),
    ApiHeader({
      name: 'If-None-Match',
      required: false,
      description: 'The `ETag` of your latest list; the response is 304 without a body while the list is unchanged.',
      // Without an example: Swagger UI would fill it in and send it.
      schema: { type: 'string', maxLength: 4_096, pattern: '^(\\*|[!-~ ]*)$' },
    }),
    ApiOkResponse({
      description: 'All orders.',
      headers: LIST_HEADERS,
      type: [Order],
      example: [
        { id: 10, petId: 198772, quantity: 2, shipDate: '2026-11-21T09:30:00.000Z', complete: true },
        { id: 11, petId: 198773, quantity: 1, complete: false },
      ],
    }),
    ApiNotModifiedResponse({
      description: 'The list is unchanged since the `ETag` in `If-None-Match`. No body.',
      headers: LIST_HEADERS,
    }),
    ApiError(400, 'The request is malformed.', ['bad_request']),
    ApiCommonErrors(),
  );

/** Describes `DELETE /store/orders/{orderId}`. */
export const ApiCancelOrder = (): MethodDecorator =>
  applyDecorators(
    ApiOperation({
      operationId: 'cancelOrder',
      summary: 'Cancel an order',
      description:
        'Cancels an order with status `pending`; the order stays in the list. An order that has already shipped cannot ' +
        'be cancelled (409 `order_already_shipped`), nor can one that is already cancelled (409 ' +
        '`order_already_cancelled`). If you do not receive the response to a cancel, repeat the request.',
    }),
    ApiParam({
      name: 'orderId',
      required: true,
      description: 'The identifier of the order to cancel: a decimal int64 without leading zeros.',
      // Without an example: Swagger UI would fill it in, and cancel that order.
      schema: { type: 'integer', format: 'int64' },
    }),
    ApiNoContentResponse({ description: 'Order cancelled.', headers: COMMON_HEADERS }),
    ApiError(400, 'The order id is not a decimal int64, or the request is malformed.'),
    ApiError(404, 'The order cannot be found.', ['order_not_found']),
    ApiError(409, 'The order cannot be cancelled because it has already shipped or is already cancelled.'),
    ApiCommonErrors(),
  );
