import type { components } from './interface.ts';

/** The body of every error response. */
export type ErrorBody = components['schemas']['Error'];

/** An error response of the service. Use `code` to tell errors apart. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: string;
  readonly status: number;
  /** Seconds to wait before the next request, from `Retry-After`. Not negative. */
  readonly retryAfterSeconds: number | undefined;

  constructor(body: ErrorBody, retryAfterSeconds?: number) {
    super(`${body.code}: ${body.message}`);
    this.code = body.code;
    this.status = body.status;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** The connection was lost, or the data was invalid, before the list was complete. Discard the orders received. */
export class IncompleteListError extends Error {
  override readonly name = 'IncompleteListError';
}
