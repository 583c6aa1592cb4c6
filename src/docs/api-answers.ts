import { applyDecorators } from '@nestjs/common';
import { ApiResponse, type ApiResponseOptions, getSchemaPath } from '@nestjs/swagger';
import { ERROR_STATUS, type ErrorCode } from '../errors/error-codes.js';

type Headers = NonNullable<ApiResponseOptions['headers']>;

/** On every answer under the version segment. */
export const LIMIT_HEADERS: Headers = {
  'X-RateLimit-Limit': {
    required: true,
    description: 'The limit that applies: of the two windows, the one with the fewest requests remaining.',
    schema: { type: 'integer', format: 'int32', minimum: 1, example: 60 },
  },
  'X-RateLimit-Remaining': {
    required: true,
    description: 'Requests remaining in that window.',
    schema: { type: 'integer', format: 'int32', minimum: 0, example: 59 },
  },
  'X-RateLimit-Reset': {
    required: true,
    description: 'Unix timestamp (seconds) at which that limit resets.',
    schema: { type: 'integer', format: 'int64', minimum: 0, example: 1_795_255_260 },
  },
  'RateLimit-Policy': {
    required: true,
    description: 'Both windows as policies (draft-ietf-httpapi-ratelimit-headers): quota `q` in `w` seconds.',
    schema: { type: 'string', maxLength: 200, example: '"minute";q=60;w=60, "day";q=1000;w=86400' },
  },
  RateLimit: {
    required: true,
    description: 'Where both windows stand: `r` requests remain, the window resets in `t` seconds.',
    schema: { type: 'string', maxLength: 200, example: '"minute";r=59;t=42, "day";r=999;t=51642' },
  },
};

const RETRY_AFTER: Headers = {
  'Retry-After': {
    required: true,
    description: 'Whole seconds to wait before the next request.',
    schema: { type: 'integer', format: 'int32', minimum: 1, example: 42 },
  },
};

const WWW_AUTHENTICATE: Headers = {
  'WWW-Authenticate': {
    required: true,
    description: 'The scheme that is expected (RFC 6750 section 3).',
    schema: { type: 'string', maxLength: 200, example: 'Bearer realm="petstore", error="invalid_token"' },
  },
};

const HEADERS_BY_STATUS: Readonly<Record<number, Headers>> = {
  401: WWW_AUTHENTICATE,
  429: RETRY_AFTER,
  503: RETRY_AFTER,
};

/** One error answer: its description and an example message for each code that it can carry. */
export function ApiError(
  status: number,
  description: string,
  messages: Partial<Record<ErrorCode, string>>,
): MethodDecorator {
  const examples = Object.entries(messages).map(([code, message]) => [
    code,
    { summary: code, value: { code, message, status: ERROR_STATUS[code as ErrorCode] } },
  ]);
  return ApiResponse({
    status,
    description,
    headers: { ...LIMIT_HEADERS, ...HEADERS_BY_STATUS[status] },
    content: {
      'application/json': {
        schema: { $ref: getSchemaPath('Error') },
        examples: Object.fromEntries(examples) as Record<string, { value: unknown }>,
      },
    },
  });
}

/** The error answers that every operation can give. */
export const ApiCommonErrors = (): MethodDecorator =>
  applyDecorators(
    ApiError(401, 'The API key is missing or invalid.', {
      missing_api_key: 'An API key is required: send it as "Authorization: Bearer <key>".',
      invalid_api_key: 'The API key is not valid.',
    }),
    ApiError(429, 'The rate limit is exceeded, or the API key or address is banned for a while.', {
      rate_limit_exceeded:
        'The rate limit is exceeded. Wait for the time given in Retry-After, then back off exponentially.',
      api_key_banned:
        'This API key is banned for a while because it kept calling after its limit was exceeded. See Retry-After.',
      address_banned:
        'This address is banned for a while because it kept calling without a valid API key after its limit was exceeded. See Retry-After.',
    }),
    ApiError(500, 'Something went wrong on our side.', { internal_error: 'Something went wrong on our side.' }),
    ApiError(503, 'The service is briefly unavailable.', {
      service_unavailable: 'The service is briefly unavailable; try again in a moment.',
    }),
  );
