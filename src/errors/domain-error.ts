interface ErrorResponse {
  readonly status: number;
  /** The public message of an occurrence without one of its own. */
  readonly message: string;
  /** Headers of every response with this code. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** RFC 6750 section 3: no error code when no credentials were sent, `invalid_token` when they were rejected. */
const CHALLENGE = 'Bearer realm="petstore"';

const CODES = {
  bad_request: { status: 400, message: 'The request is not well-formed HTTP.' },
  invalid_order_id: {
    status: 400,
    message:
      'The order id must be a decimal integer from -9223372036854775808 to 9223372036854775807, without leading zeros.',
  },
  missing_api_key: {
    status: 401,
    message: 'An API key is required: send it as "Authorization: Bearer <key>".',
    headers: { 'WWW-Authenticate': CHALLENGE },
  },
  invalid_api_key: {
    status: 401,
    message: 'The API key is not valid.',
    headers: { 'WWW-Authenticate': `${CHALLENGE}, error="invalid_token"` },
  },
  order_not_found: { status: 404, message: 'No order has this id.' },
  route_not_found: { status: 404, message: 'Path not found.' },
  method_not_allowed: { status: 405, message: 'This path does not support the method.' },
  request_timeout: { status: 408, message: 'The request did not arrive in time.' },
  order_already_shipped: { status: 409, message: 'The order has already shipped and cannot be cancelled.' },
  order_already_cancelled: { status: 409, message: 'The order has already been cancelled.' },
  rate_limit_exceeded: {
    status: 429,
    message: 'Rate limit exceeded. Wait for the time given in Retry-After, then back off exponentially.',
  },
  api_key_banned: {
    status: 429,
    message:
      'This API key is temporarily banned because it kept sending requests after its limit was exceeded. See Retry-After.',
  },
  address_banned: {
    status: 429,
    message:
      'This address is temporarily banned because it kept sending requests without a valid API key after its limit was exceeded. See Retry-After.',
  },
  request_header_fields_too_large: { status: 431, message: 'The request head exceeds 16 KiB.' },
  internal_error: { status: 500, message: 'Internal server error.' },
  service_unavailable: {
    status: 503,
    message: 'The service is temporarily unavailable; retry shortly.',
    // RFC 9110 section 10.2.3: seconds until the client should retry.
    headers: { 'Retry-After': '1' },
  },
} satisfies Record<string, ErrorResponse>;

/** A machine-readable error code: stable, lower snake case. */
export type ErrorCode = keyof typeof CODES;

/** Every error code of this service, with its response. */
export const ERRORS: Readonly<Record<ErrorCode, ErrorResponse>> = CODES;

/** An error that is reported to the client: a stable code and a public message. */
export class DomainError extends Error {
  constructor(
    readonly code: ErrorCode,
    message = ERRORS[code].message,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = 'DomainError';
  }
}
