import type { ErrorCode } from './error-codes.js';

/** The message of each code that always comes with the same one: what is thrown, and what the documentation shows. */
export const ERROR_MESSAGES = {
  invalid_order_id:
    'The order id must be a decimal integer from -9223372036854775808 to 9223372036854775807, without leading zeros.',
  missing_api_key: 'An API key is required: send it as "Authorization: Bearer <key>".',
  invalid_api_key: 'The API key is not valid.',
  order_not_found: 'There is no order with this id.',
  route_not_found: 'There is nothing at this path.',
  request_timeout: 'The request did not arrive in time.',
  order_already_shipped: 'The order has already shipped and cannot be cancelled.',
  order_already_cancelled: 'The order has already been cancelled.',
  rate_limit_exceeded:
    'The rate limit is exceeded. Wait for the time given in Retry-After, then back off exponentially.',
  api_key_banned:
    'This API key is banned for a while because it kept calling after its limit was exceeded. See Retry-After.',
  address_banned:
    'This address is banned for a while because it kept calling without a valid API key after its limit was exceeded. See Retry-After.',
  request_header_fields_too_large: 'The request line and headers are larger than 16 KiB.',
  internal_error: 'Something went wrong on our side.',
} as const satisfies Partial<Record<ErrorCode, string>>;

export type CodeWithOneMessage = keyof typeof ERROR_MESSAGES;
