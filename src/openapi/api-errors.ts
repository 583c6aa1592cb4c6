import { applyDecorators } from '@nestjs/common';
import { ApiProperty, ApiResponse, getSchemaPath } from '@nestjs/swagger';
import { type CodeWithMessage, type ErrorCode, ERRORS } from '../errors/domain-error.js';
import { type Headers, headers, LIMIT_HEADERS } from './api-headers.js';

/** The Error object of the interface, for the document. */
export class ErrorSchema {
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

const HEADERS_BY_STATUS: Readonly<Record<number, Headers>> = {
  401: headers('WWW-Authenticate'),
  429: headers('Retry-After'),
  503: headers('Retry-After'),
};

/** When an error has this code, and an example of its message. */
interface ErrorExample {
  readonly when: string;
  readonly message: string;
}

/** For a code whose message is always the same. */
interface PlainErrorExample {
  readonly when: string;
  readonly message?: undefined;
}

export type ErrorExamples = {
  readonly [Code in ErrorCode]?: Code extends CodeWithMessage ? PlainErrorExample : ErrorExample;
};

/**
 * One error response, with an example for each code that it can carry.
 * @param status `default` stands for every status that is not listed
 */
export function ApiError(status: number | 'default', description: string, examples: ErrorExamples): MethodDecorator {
  const entries = (Object.keys(examples) as ErrorCode[]).map((code) => {
    const { when, message = ERRORS[code].message } = examples[code] ?? { when: '' };
    return [code, { summary: `${code}: ${when}`, value: { code, message, status: ERRORS[code].status } }];
  });
  return ApiResponse({
    status,
    description,
    headers: { ...LIMIT_HEADERS, ...(status === 'default' ? {} : HEADERS_BY_STATUS[status]) },
    content: {
      'application/json': {
        schema: { $ref: getSchemaPath('Error') },
        examples: Object.fromEntries(entries) as Record<string, { value: unknown }>,
      },
    },
  });
}

/** A 400 of every operation. */
export const BAD_REQUEST: ErrorExamples = {
  bad_request: {
    when: 'the request is not well-formed HTTP, or its target cannot be decoded',
    message: 'The request is not well-formed HTTP.',
  },
};

/** The error responses of every operation. */
export const ApiCommonErrors = (): MethodDecorator =>
  applyDecorators(
    ApiError(401, 'The API key is missing or invalid. Unknown, expired and revoked keys get the same response.', {
      missing_api_key: { when: 'the request has no key' },
      invalid_api_key: { when: 'the key is unknown, expired or revoked' },
    }),
    ApiError(
      429,
      'The rate limit is exceeded, or the key or address is temporarily banned. The request has no effect and consumes ' +
        'no quota. Wait for the number of seconds in `Retry-After`, and use exponential backoff.',
      {
        rate_limit_exceeded: { when: 'no request remains in this minute or day' },
        api_key_banned: { when: 'the key kept sending requests after its limit was exceeded' },
        address_banned: { when: 'the address kept sending requests without a valid key after its limit was exceeded' },
      },
    ),
    ApiError(500, 'Internal server error.', {
      internal_error: { when: 'an unexpected error in the service' },
    }),
    ApiError(503, 'The service is temporarily unavailable. Retry after the number of seconds in `Retry-After`.', {
      service_unavailable: {
        when: 'the database is unreachable or overloaded, or the order is locked',
        message: 'The service is temporarily unavailable; retry shortly.',
      },
    }),
    ApiError('default', 'Any other error, in the same shape: the request did not reach this operation.', {
      route_not_found: { when: 'the path does not exist' },
      method_not_allowed: {
        when: 'the path does not support the method; `Allow` lists the supported ones',
        message: 'This path supports GET, HEAD only.',
      },
      request_timeout: { when: 'the request did not arrive in time' },
      request_header_fields_too_large: { when: 'the request line and headers are larger than 16 KiB' },
    }),
  );
