import { ApiPropertyOptional } from '@nestjs/swagger';

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
