import pg from 'pg';
import { panic } from './wasm.mjs';

/** An error with a code that Prisma documents. */
export class PrismaError extends Error {
  /**
   * @param {string} code such as `P1001`
   * @param {string} message
   * @param {ErrorOptions} [options]
   */
  constructor(code, message, options) {
    super(message, options);
    this.code = code;
  }
}

/**
 * @param {unknown} error
 * @returns {{ is_panic: boolean, message: string, error_code: string | undefined }} as the CLI expects it
 */
export function toCliError(error) {
  return {
    is_panic: false,
    message: describe(error),
    error_code: error instanceof PrismaError ? error.code : undefined,
  };
}

/**
 * @param {unknown} error
 * @returns {string}
 */
export function describe(error) {
  // A host name with several addresses fails with an AggregateError that has no message.
  if (error instanceof AggregateError) return error.errors.map(describe).join('\n');
  // The WebAssembly error of a panic says only "unreachable".
  if (error instanceof WebAssembly.RuntimeError) return panic.message;
  return error instanceof Error ? error.message : String(error);
}

/**
 * @param {string} script
 * @param {unknown} error
 * @returns {string} the error with its detail, its hint and the line of the script
 */
export function describeFailedScript(script, error) {
  if (!(error instanceof pg.DatabaseError)) return describe(error);
  const { message, code, detail, hint, position } = error;
  const parts = [`${message} (SQLSTATE ${code})`, detail && `DETAIL: ${detail}`, hint && `HINT: ${hint}`];
  if (position) {
    // PostgreSQL counts characters, from one.
    const line = [...script].slice(0, Number(position) - 1).filter((character) => character === '\n').length;
    parts.push(`LINE ${line + 1}: ${script.split('\n')[line]}`);
  }
  return parts.filter(Boolean).join('\n');
}
