import type { ErrorCode } from './error-codes.js';

/** A failure that the caller is told about: a stable code and a message fit for the public. */
export class DomainError extends Error {
  constructor(
    readonly code: ErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = 'DomainError';
  }
}
