/**
 * Every `code` that an error of this service can carry, with its HTTP status. This table is the only place where the
 * two meet: domain code throws a code, the exception filter looks the status up.
 */
export const ERROR_STATUS = {
  bad_request: 400,
  invalid_order_id: 400,
  missing_api_key: 401,
  invalid_api_key: 401,
  order_not_found: 404,
  route_not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  order_already_shipped: 409,
  order_already_cancelled: 409,
  rate_limit_exceeded: 429,
  api_key_banned: 429,
  address_banned: 429,
  request_header_fields_too_large: 431,
  internal_error: 500,
  service_unavailable: 503,
} as const;

/** A machine-readable error code: stable, lower snake case. */
export type ErrorCode = keyof typeof ERROR_STATUS;
