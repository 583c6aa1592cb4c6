import type { components } from './interface.ts';

/** The body of every error that the service answers. */
export type ErrorBody = components['schemas']['Error'];

/** An error that the service answered. Decide by `code`. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: string;
  readonly status: number;
  /** How long to wait before the next request, where the service said so. Seconds. */
  readonly retryAfterSeconds: number | undefined;

  constructor(body: ErrorBody, retryAfterSeconds?: number) {
    super(`${body.code}: ${body.message}`);
    this.code = body.code;
    this.status = body.status;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** The connection broke off, or what it carried was no list, before the list was complete. Discard what has arrived. */
export class IncompleteListError extends Error {
  override readonly name = 'IncompleteListError';
}
