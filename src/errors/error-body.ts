import { ERROR_STATUS, type ErrorCode } from './error-codes.js';

/** The body of every answer that is not a success. */
export interface ErrorBody {
  readonly code: ErrorCode;
  readonly message: string;
  readonly status: number;
}

/** The error body as JSON text, with the keys in the published order. */
export function errorBodyJson(code: ErrorCode, message: string): string {
  const body: ErrorBody = { code, message, status: ERROR_STATUS[code] };
  return JSON.stringify(body);
}
