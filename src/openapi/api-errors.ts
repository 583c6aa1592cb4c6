import { applyDecorators } from '@nestjs/common';
import { ApiResponse, getSchemaPath } from '@nestjs/swagger';
import { type CodeWithMessage, type ErrorCode, ERRORS } from '../errors/error-codes.js';
import { type Headers, headers, LIMIT_HEADERS } from './api-headers.js';

const HEADERS_BY_STATUS: Readonly<Record<number, Headers>> = {
  401: headers('WWW-Authenticate'),
  429: headers('Retry-After'),
  503: headers('Retry-After'),
};

/** What an example shows: when the code is answered, and a message that comes with it. */
interface ErrorExample {
  readonly when: string;
  readonly message: string;
}

/** Without its message, which is always the same. */
interface PlainErrorExample {
  readonly when: string;
  readonly message?: undefined;
}

export type ErrorExamples = {
  readonly [Code in ErrorCode]?: Code extends CodeWithMessage ? PlainErrorExample : ErrorExample;
};

/**
 * One error answer, with an example for each code that it can carry.
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

/** A 400 that every operation can answer. */
export const BAD_REQUEST: ErrorExamples = {
  bad_request: {
    when: 'the request is not well-formed HTTP, or its address cannot be decoded',
    message: 'The request is not well-formed HTTP.',
  },
};

/** The error answers that every operation can give. */
export const ApiCommonErrors = (): MethodDecorator =>
  applyDecorators(
    ApiError(401, 'The API key is missing or invalid. Unknown, expired and revoked keys are answered alike.', {
      missing_api_key: { when: 'no key was sent' },
      invalid_api_key: { when: 'the key is not, or no longer, valid' },
    }),
    ApiError(
      429,
      'The rate limit is exceeded, or the key or address is banned for a while. The request has had no effect and is ' +
        'not counted. Wait for the seconds in `Retry-After`, then back off exponentially.',
      {
        rate_limit_exceeded: { when: 'no request remains in this minute or day' },
        api_key_banned: { when: 'the key kept calling after its limit was exceeded' },
        address_banned: { when: 'the same, for an address that sends no valid key' },
      },
    ),
    ApiError(500, 'Internal server error.', {
      internal_error: { when: 'a fault of the service' },
    }),
    ApiError(503, 'The service is temporarily unavailable. Retry after the seconds in `Retry-After`.', {
      service_unavailable: {
        when: 'the database is away or too busy, or the order is locked',
        message: 'The service is temporarily unavailable; retry shortly.',
      },
    }),
    ApiError('default', 'Any other error, in the same shape: the request did not get as far as this operation.', {
      route_not_found: { when: 'there is nothing at the path' },
      method_not_allowed: {
        when: 'the path does not answer to the method; `Allow` names those that it answers to',
        message: 'This path supports GET, HEAD only.',
      },
      request_timeout: { when: 'the request did not arrive in time' },
      request_header_fields_too_large: { when: 'the request line and headers are larger than 16 KiB' },
    }),
  );
