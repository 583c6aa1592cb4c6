import type { ErrorCode } from '../errors/domain-error.js';

interface ErrorResponse {
  readonly status: number;
  /** Headers of every response with this code. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** RFC 6750 section 3: no error code when no credentials were sent, `invalid_token` when they were rejected. */
const CHALLENGE = 'Bearer realm="petstore"';

/** The HTTP status and the headers of every error code. */
export const ERROR_RESPONSES: Readonly<Record<ErrorCode, ErrorResponse>> = {
  bad_request: { status: 400 },
  invalid_order_id: { status: 400 },
  missing_api_key: { status: 401, headers: { 'WWW-Authenticate': CHALLENGE } },
  invalid_api_key: { status: 401, headers: { 'WWW-Authenticate': `${CHALLENGE}, error="invalid_token"` } },
  order_not_found: { status: 404 },
  route_not_found: { status: 404 },
  method_not_allowed: { status: 405 },
  request_timeout: { status: 408 },
  order_already_shipped: { status: 409 },
  order_already_cancelled: { status: 409 },
  rate_limit_exceeded: { status: 429 },
  api_key_banned: { status: 429 },
  address_banned: { status: 429 },
  request_header_fields_too_large: { status: 431 },
  internal_error: { status: 500 },
  // RFC 9110 section 10.2.3: seconds until the client should retry.
  service_unavailable: { status: 503, headers: { 'Retry-After': '1' } },
};
