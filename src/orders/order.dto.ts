import { ApiPropertyOptional, type ApiPropertyOptions } from '@nestjs/swagger';
import { ORDER_COLUMNS, type OrderColumn, textLengthMax } from './order-columns.js';

/** The Order of the interface, for the document only: the list is encoded without an object per order. */
export class Order {}

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
  const { name, description, example } = column;
  // No field of an order is declared required.
  ApiPropertyOptional({ ...schemaOf(column), description, example })(Order.prototype, name);
}
