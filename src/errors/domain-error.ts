/** Every error code of this service with its public message. `http/error-responses.ts` has the status and the headers of each. */
const MESSAGES = {
  bad_request: 'The request is not well-formed HTTP.',
  invalid_order_id:
    'The order id must be a decimal integer from -9223372036854775808 to 9223372036854775807, without leading zeros.',
  missing_api_key: 'An API key is required: send it as "Authorization: Bearer <key>".',
  invalid_api_key: 'The API key is not valid.',
  order_not_found: 'No order has this id.',
  route_not_found: 'Path not found.',
  method_not_allowed: 'This path does not support the method.',
  request_timeout: 'The request did not arrive in time.',
  order_already_shipped: 'The order has already shipped and cannot be cancelled.',
  order_already_cancelled: 'The order has already been cancelled.',
  rate_limit_exceeded: 'Rate limit exceeded. Wait for the time given in Retry-After, then back off exponentially.',
  api_key_banned:
    'This API key is temporarily banned because it kept sending requests after its limit was exceeded. See Retry-After.',
  address_banned:
    'This address is temporarily banned because it kept sending requests without a valid API key after its limit was exceeded. See Retry-After.',
  request_header_fields_too_large: 'The request head exceeds 16 KiB.',
  internal_error: 'Internal server error.',
  service_unavailable: 'The service is temporarily unavailable; retry shortly.',
} as const;

/** A machine-readable error code: stable, lower snake case. */
export type ErrorCode = keyof typeof MESSAGES;

/** The public message of an occurrence without one of its own. */
export const ERROR_MESSAGES: Readonly<Record<ErrorCode, string>> = MESSAGES;

/** An error that is reported to the client: a stable code and a public message. */
export class DomainError extends Error {
  constructor(
    readonly code: ErrorCode,
    message = ERROR_MESSAGES[code],
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = 'DomainError';
  }
}
