import { ApiProperty } from '@nestjs/swagger';
import { type ErrorCode, ERRORS } from '../errors/domain-error.js';

/** The Error object of the interface, for the document. */
class ErrorSchema {
  @ApiProperty({
    type: 'string',
    description: 'Machine-readable error code. New codes may be added; treat an unknown one by its status.',
    example: 'order_not_found',
    maxLength: 64,
    pattern: '^[a-z]+(_[a-z]+)*$',
    'x-extensible-enum': Object.keys(ERRORS),
  } as object)
  code!: ErrorCode;

  @ApiProperty({
    type: 'string',
    description: 'Human-readable description of the error.',
    maxLength: 300,
    example: 'No order has this id.',
  })
  message!: string;

  @ApiProperty({
    type: 'integer',
    format: 'int32',
    minimum: 400,
    maximum: 599,
    description: 'The HTTP status code.',
    example: 404,
  })
  status!: number;
}
Object.defineProperty(ErrorSchema, 'name', { value: 'Error' });

export { ErrorSchema };
