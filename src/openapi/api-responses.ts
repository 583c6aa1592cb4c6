import { applyDecorators } from '@nestjs/common';
import { ApiProperty, ApiResponse, type ApiResponseOptions, ApiSchema, getSchemaPath } from '@nestjs/swagger';
import { type ErrorCode, ERRORS } from '../errors/domain-error.js';
import { REQUEST_ID_HEADER } from '../http/request.js';
import { LIMIT_HEADER_NAMES } from '../rate-limit/headers.js';

export type Headers = NonNullable<ApiResponseOptions['headers']>;

/** Every documented response header: `components.headers` of the document. */
export const HEADER_COMPONENTS: Headers = {
  [REQUEST_ID_HEADER]: {
    required: true,
    description: 'The id of the request in the log: the one that the client sent, if well-formed, or a new one.',
    schema: { type: 'string', minLength: 1, maxLength: 64, pattern: '^[A-Za-z0-9._-]+$' },
    example: '5f0c7a3e-8f0e-4c1b-9a57-2f6f0f4f1f6d',
  },
  'X-RateLimit-Limit': {
    required: true,
    description: 'The limit of the window, minute or day, with the fewest requests remaining.',
    schema: { type: 'integer', format: 'int32', minimum: 1, maximum: 2_147_483_647 },
    example: 60,
  },
  'X-RateLimit-Remaining': {
    required: true,
    description: 'Requests remaining in that window.',
    schema: { type: 'integer', format: 'int32', minimum: 0, maximum: 2_147_483_647 },
    example: 59,
  },
  'X-RateLimit-Reset': {
    required: true,
    description: 'Unix timestamp, in seconds, at which that window or a ban ends.',
    schema: { type: 'integer', format: 'int64', minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
    example: 1_795_255_260,
  },
  'RateLimit-Policy': {
    required: true,
    description: 'Both windows as policies (draft-ietf-httpapi-ratelimit-headers): `q` requests in `w` seconds.',
    schema: { type: 'string', maxLength: 200, pattern: '^"minute";q=\\d+;w=60, "day";q=\\d+;w=86400$' },
    example: '"minute";q=60;w=60, "day";q=1000;w=86400',
  },
  RateLimit: {
    required: true,
    description: 'The state of both windows: `r` requests remain, and the window resets in `t` seconds.',
    schema: { type: 'string', maxLength: 200, pattern: '^"minute";r=\\d+;t=\\d+, "day";r=\\d+;t=\\d+$' },
    example: '"minute";r=59;t=42, "day";r=999;t=51642',
  },
  'Retry-After': {
    required: true,
    description: 'Whole seconds to wait before the next request.',
    schema: { type: 'integer', format: 'int32', minimum: 1, maximum: 2_147_483_647 },
    example: 42,
  },
  'WWW-Authenticate': {
    required: true,
    description: 'The expected scheme (RFC 6750 section 3); `invalid_token` when the request has a key.',
    schema: { type: 'string', maxLength: 200, pattern: '^Bearer realm="petstore"(, error="invalid_token")?$' },
    example: 'Bearer realm="petstore", error="invalid_token"',
  },
  ETag: {
    description:
      'Identifies the state of the list; send it in `If-None-Match` to get 304 while the list is unchanged. Absent while the ' +
      'service cannot tell whether the list is unchanged.',
    schema: { type: 'string', maxLength: 100, pattern: '^W/"[\\w-]+"$' },
    example: 'W/"e147999c2103cead5a28331740a7cc41-112744bok14jo-c703d639"',
  },
};

/** @returns references to the headers of these names */
export function headers(...names: readonly string[]): Headers {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

/** Headers of every response under the version segment. */
export const COMMON_HEADERS = headers(REQUEST_ID_HEADER, ...LIMIT_HEADER_NAMES);

/** The Error object of the interface, for the document. */
@ApiSchema({ name: 'Error' })
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

const HEADERS_BY_STATUS: Readonly<Record<string, Headers>> = {
  401: headers('WWW-Authenticate'),
  429: headers('Retry-After'),
  503: headers('Retry-After'),
};

/**
 * One error response, with an example for each code that it can carry.
 * @param status `default` stands for every status that is not listed
 */
export function ApiError(
  status: number | 'default',
  description: string,
  codes: readonly ErrorCode[] = codesOf(status),
): MethodDecorator {
  const examples = codes.map((code) => [
    code,
    { value: { code, message: ERRORS[code].message, status: ERRORS[code].status } },
  ]);
  return ApiResponse({
    status,
    description,
    headers: { ...COMMON_HEADERS, ...HEADERS_BY_STATUS[status] },
    content: {
      'application/json': {
        schema: { $ref: getSchemaPath(ErrorSchema) },
        examples: Object.fromEntries(examples) as Record<string, { value: unknown }>,
      },
    },
  });
}

function codesOf(status: number | 'default'): ErrorCode[] {
  return (Object.keys(ERRORS) as ErrorCode[]).filter((code) => ERRORS[code].status === status);
}

/** The error responses of every operation. */
export const ApiCommonErrors = (): MethodDecorator =>
  applyDecorators(
    ApiError(401, 'The API key is missing or invalid. Unknown, expired and revoked keys get the same response.'),
    ApiError(
      429,
      'The rate limit is exceeded, or the key or address is temporarily banned. The request has no effect and consumes ' +
        'no quota. Wait for the number of seconds in `Retry-After`, and use exponential backoff.',
    ),
    ApiError(500, 'Internal server error.'),
    ApiError(
      503,
      'The service is temporarily unavailable: the database is unreachable or overloaded, or the order is locked. Retry after ' +
        'the number of seconds in `Retry-After`.',
    ),
    ApiError(
      'default',
      'Any other error, in the same shape: the request did not reach this operation. 405 has the header `Allow`. Input that ' +
        'never becomes a request gets an error without rate-limit headers.',
      ['route_not_found', 'method_not_allowed', 'request_timeout', 'request_header_fields_too_large'],
    ),
  );
