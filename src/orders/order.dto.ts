import { ApiPropertyOptional, type ApiPropertyOptions } from '@nestjs/swagger';
import { ORDER_COLUMNS, type OrderColumn, type OrderProperty, textLengthMax } from './order-columns.js';

/** The Order of the interface, for the document only: the list is encoded without an object per order. */
export class Order {}

/** What the description of the columns does not say. */
const ORDER_PROPERTIES: Readonly<Record<OrderProperty, { readonly description: string; readonly example: unknown }>> = {
  id: { description: 'Unique order identifier.', example: 10 },
  petId: { description: 'Identifier of the animal in the order.', example: 198_772 },
  quantity: { description: 'Number of units ordered.', example: 2 },
  shipDate: {
    description: 'Expected or actual ship date, in UTC with milliseconds; omitted when there is none.',
    example: '2026-11-21T09:30:00.000Z',
  },
  complete: { description: 'Whether the order has been fulfilled.', example: false },
};

/** The form of the values of a column in JSON. */
function schemaOf({ type, minimum = -2_147_483_648 }: OrderColumn): ApiPropertyOptions {
  switch (type) {
    case 'bigint':
      return { type: 'integer', format: 'int64' };
    case 'integer':
      return { type: 'integer', format: 'int32', minimum, maximum: 2_147_483_647 };
    case 'boolean':
      return { type: 'boolean' };
    case 'timestamp(3) with time zone':
      return { type: 'string', format: 'date-time', maxLength: 24 };
    default: {
      const maxLength = textLengthMax(type) ?? Infinity;
      // PostgreSQL cannot store U+0000.
      return { type: 'string', pattern: '^[^\\u0000]*$', ...(maxLength === Infinity ? {} : { maxLength }) };
    }
  }
}

for (const column of ORDER_COLUMNS) {
  // No field of an order is declared required.
  ApiPropertyOptional({ ...schemaOf(column), ...ORDER_PROPERTIES[column.name] })(Order.prototype, column.name);
}
