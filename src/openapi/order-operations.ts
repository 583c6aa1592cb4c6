import { applyDecorators } from '@nestjs/common';
import {
  ApiBearerAuth,
  ApiExcludeEndpoint,
  ApiExtraModels,
  ApiHeader,
  ApiOperation,
  ApiParam,
  ApiPropertyOptional,
  ApiResponse,
  ApiTags,
  getSchemaPath,
} from '@nestjs/swagger';
import { OrdersController } from '../orders/orders.controller.js';
import { ApiCommonErrors, ApiError, COMMON_HEADERS, ErrorSchema, headers } from './api-responses.js';

/** The Order of the interface, for the document only: the list is encoded without an object per order. */
export class Order {
  @ApiPropertyOptional({ type: 'integer', format: 'int64', description: 'Unique order identifier.', example: 10 })
  id?: bigint;

  @ApiPropertyOptional({
    type: 'integer',
    format: 'int64',
    description: 'Identifier of the animal in the order.',
    example: 198_772,
  })
  petId?: bigint;

  @ApiPropertyOptional({
    type: 'integer',
    format: 'int32',
    minimum: 1,
    maximum: 2_147_483_647,
    description: 'Number of units ordered.',
    example: 2,
  })
  quantity?: number;

  @ApiPropertyOptional({
    type: 'string',
    format: 'date-time',
    maxLength: 24,
    description: 'Expected or actual ship date, in UTC with milliseconds; omitted when there is none.',
    example: '2026-11-21T09:30:00.000Z',
  })
  shipDate?: string;

  @ApiPropertyOptional({ type: 'boolean', description: 'Whether the order has been fulfilled.', example: false })
  complete?: boolean;
}

const LIST_HEADERS = { ...COMMON_HEADERS, ...headers('ETag') };

/** `GET /store/orders`. */
const ApiListOrders = (): MethodDecorator =>
  applyDecorators(
    ApiExtraModels(Order, ErrorSchema),
    ApiBearerAuth(),
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
      description: 'The list is unchanged since the `ETag` in `If-None-Match`. No body.',
      headers: LIST_HEADERS,
    }),
    ApiError(400, 'The request is malformed.', ['bad_request']),
    ApiCommonErrors(),
  );

/** `DELETE /store/orders/{orderId}`. */
const ApiCancelOrder = (): MethodDecorator =>
  applyDecorators(
    ApiBearerAuth(),
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
      schema: { type: 'integer', format: 'int64' },
      example: 11,
    }),
    ApiResponse({ status: 204, description: 'Order cancelled.', headers: COMMON_HEADERS }),
    ApiError(400, 'The order id is not a decimal int64, or the request is malformed.'),
    ApiError(404, 'The order cannot be found.', ['order_not_found']),
    ApiError(409, 'The order cannot be cancelled because it has already shipped or is already cancelled.'),
    ApiCommonErrors(),
  );

const OPERATIONS: Readonly<Partial<Record<keyof OrdersController, MethodDecorator>>> = {
  listOrders: ApiListOrders(),
  cancelOrder: ApiCancelOrder(),
};

/**
 * Describes the operations of the controller. Call once, before the document is generated. The descriptions are not decorators in the
 * controller, because a service needs neither them nor their package until the document is requested.
 */
export function describeOrders(): void {
  ApiTags('store')(OrdersController);
  for (const [name, method] of Object.entries(Object.getOwnPropertyDescriptors(OrdersController.prototype))) {
    if (name !== 'constructor') {
      const describe = OPERATIONS[name as keyof OrdersController] ?? ApiExcludeEndpoint();
      describe(OrdersController.prototype, name, method);
    }
  }
}
