import type { ErrorCode } from './error-codes.js';
import { type CodeWithOneMessage, ERROR_MESSAGES } from './error-messages.js';

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

  /** The error of a code that always comes with the same message. */
  static of(code: CodeWithOneMessage, options?: ErrorOptions): DomainError {
    return new DomainError(code, ERROR_MESSAGES[code], options);
  }
}
