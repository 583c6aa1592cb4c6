import { type CodeWithMessage, type ErrorCode, messageOf } from './error-codes.js';

/** An error that is reported to the client: a stable code and a public message. */
export class DomainError extends Error {
  constructor(
    readonly code: ErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = 'DomainError';
  }

  /** The error of a code whose message is always the same. */
  static of(code: CodeWithMessage, options?: ErrorOptions): DomainError {
    return new DomainError(code, messageOf(code), options);
  }
}
