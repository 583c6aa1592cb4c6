import pg from 'pg';
import { panic } from './wasm.mjs';

/** @import { MigrationList } from '@prisma/schema-engine-wasm' */
/** @import { FailedScript } from './session.mjs' */

/** An error with a code that Prisma documents, in the words of the native engine. */
export class UserFacingError extends Error {
  /**
   * @param {string} code such as `P1001`
   * @param {string} message
   */
  constructor(code, message) {
    super(message);
    this.name = 'UserFacingError';
    this.code = code;
  }
}

/** SQLSTATE codes that have an error code of Prisma. */
const SqlState = Object.freeze({
  invalidAuthorization: '28000',
  invalidPassword: '28P01',
  unknownDatabase: '3D000',
});

/**
 * Converts a connection error to Prisma's. Any error that is not from the server is P1001, followed by the driver's
 * message, because it may also be a failed TLS handshake or a missing password.
 *
 * @param {unknown} error what `pg` threw
 * @param {pg.Client} client the client that failed, for the address it tried
 * @returns {unknown} a {@link UserFacingError}, or the server's error when Prisma has no code for it
 */
export function connectionError(error, client) {
  const { user, host, port, database } = client;
  if (!(error instanceof pg.DatabaseError)) {
    return new UserFacingError(
      'P1001',
      `Can't reach database server at \`${host}:${port}\`\n\n` +
        `Please make sure your database server is running at \`${host}:${port}\`.\n\n${describe(error)}`,
    );
  }
  switch (error.code) {
    case SqlState.unknownDatabase:
      return new UserFacingError('P1003', `Database \`${database}\` does not exist`);
    case SqlState.invalidPassword:
      return new UserFacingError(
        'P1000',
        'Authentication failed against the database server, the provided database credentials for ' +
          `\`${user}\` are not valid.`,
      );
    case SqlState.invalidAuthorization:
      return new UserFacingError('P1010', `User \`${user}\` was denied access on the database \`${database}\``);
    default:
      return error;
  }
}

/**
 * @param {FailedScript} failure
 * @param {MigrationList} migrations to find the name of the failed one
 */
export function migrationFailed(failure, { migrationDirectories }) {
  const { script, error } = failure;
  const migration = migrationDirectories.find(
    ({ migrationFile: { content } }) => 'value' in content && content.value === script,
  );
  return new UserFacingError(
    'P3018',
    'A migration failed to apply. New migrations cannot be applied before the error is recovered from. Read more ' +
      'about how to resolve migration issues in a production database: https://pris.ly/d/migrate-resolve\n\n' +
      `Migration name: ${migration?.path ?? 'unknown'}\n\n` +
      `Database error code: ${(error instanceof pg.DatabaseError && error.code) || 'none'}\n\n` +
      `Database error:\n${describeFailedScript(failure)}`,
  );
}

/**
 * @param {FailedScript} failure
 * @returns {string} the error with detail, hint and the lines of the script up to it
 */
export function describeFailedScript({ script, error }) {
  if (!(error instanceof pg.DatabaseError)) return describe(error);
  const parts = [error.message];
  if (error.detail) parts.push(`DETAIL: ${error.detail}`);
  if (error.hint) parts.push(`HINT: ${error.hint}`);
  if (error.position) {
    // PostgreSQL counts characters, from one.
    const before = [...script].slice(0, Number(error.position) - 1).join('');
    const lineNumber = before.split('\n').length;
    const lines = script.split('\n').slice(0, lineNumber);
    const numbered = lines.map((line, index) => `${String(index + 1).padStart(3)} ${line}`.trimEnd());
    parts.push(`\nPosition:\n${numbered.slice(-6).join('\n')}`);
  }
  return parts.join('\n');
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
 * @param {unknown} error
 * @returns {string | undefined} Prisma's error code; SQLSTATE codes look alike and are excluded
 */
export function prismaCode(error) {
  if (!(error instanceof Error) || error instanceof pg.DatabaseError || !('code' in error)) return undefined;
  return /^P\d{4}$/.test(String(error.code)) ? String(error.code) : undefined;
}
