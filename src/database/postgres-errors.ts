import { DeadlineExceeded } from '../common/deadline.js';
import { DomainError } from '../errors/domain-error.js';

/** Another transaction held a lock for longer than `lock_timeout` (PostgreSQL documentation, appendix A). */
export const LOCK_NOT_AVAILABLE = '55P03';
/** A standby, or a server that no longer accepts writes. */
export const READ_ONLY_TRANSACTION = '25006';
/** By `statement_timeout` or by an administrator. */
export const QUERY_CANCELED = '57014';
/** Such as an UPDATE within WITH of a table that has rules. */
export const FEATURE_NOT_SUPPORTED = '0A000';
export const SERIALIZATION_FAILURE = '40001';

/** Transient conditions: the same request may succeed a moment later. */
const TRANSIENT_SQLSTATES: ReadonlySet<string> = new Set([
  LOCK_NOT_AVAILABLE,
  '25P03', // idle_in_transaction_session_timeout
  '40P01', // deadlock_detected
  SERIALIZATION_FAILURE,
  READ_ONLY_TRANSACTION,
]);

/**
 * Classes of SQLSTATE whose codes are all transient: connection failure (08), insufficient resources (53), operator
 * intervention (57), system error (58).
 */
const TRANSIENT_SQLSTATE_CLASSES: ReadonlySet<string> = new Set(['08', '53', '57', '58']);

/** The names of Prisma's driver adapter for an unavailable server. */
const TRANSIENT_ADAPTER_KINDS: ReadonlySet<string> = new Set([
  'DatabaseNotReachable',
  'ConnectionClosed',
  'SocketTimeout',
  'TooManyConnections',
  'TlsConnectionError',
  'TransactionWriteConflict',
]);

/** Those of them whose statement was not sent. */
const NOT_CONNECTED: ReadonlySet<string> = new Set([
  'DatabaseNotReachable',
  'TooManyConnections',
  'TlsConnectionError',
]);

const TRANSIENT_SOCKET_CODES: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOENT',
]);

/** Node's codes for certificates and TLS. */
const TLS_ERROR =
  /^(?:ERR_TLS|ERR_SSL|ERR_OSSL|CERT_|UNABLE_TO_|(?:DEPTH_ZERO_)?SELF_SIGNED|INVALID_CA|HOSTNAME_MISMATCH)/;

/** Whether TLS could not be established, such as with an expired certificate. */
export function isTlsError(code: string | undefined): boolean {
  return code !== undefined && TLS_ERROR.test(code);
}

/** The SQLSTATE of an error of `pg` or a {@link StatementError}; undefined when the server did not give one. */
export function sqlStateOf(error: unknown): string | undefined {
  const code = codeOf(error);
  // Codes of sockets (`EPIPE`) can have five characters, too.
  const isForeign = code === undefined || TRANSIENT_SOCKET_CODES.has(code);
  return isForeign || !/^[0-9A-Z]{5}$/.test(code) ? undefined : code;
}

/** Whether the database is unavailable, shutting down, overloaded or busy, so that the response is 503 and not 500. */
export function isTransientDatabaseError(error: unknown): boolean {
  const sqlState = sqlStateOf(error);
  if (sqlState !== undefined) {
    return TRANSIENT_SQLSTATES.has(sqlState) || TRANSIENT_SQLSTATE_CLASSES.has(sqlState.slice(0, 2));
  }
  if (error instanceof StatementError) {
    return TRANSIENT_ADAPTER_KINDS.has(error.kind);
  }
  const code = codeOf(error);
  if (code !== undefined) {
    return TRANSIENT_SOCKET_CODES.has(code) || isTlsError(code);
  }
  if (error instanceof DeadlineExceeded) {
    return true;
  }
  if (error instanceof AggregateError) {
    return error.errors.every(isTransientDatabaseError);
  }
  // `pg` reports a lost connection and an exhausted pool as a bare Error without a code.
  return error instanceof Error && Object.getPrototypeOf(error) === Error.prototype;
}

/**
 * Whether only this statement failed, while the server and the connection still work. Then its parts may succeed when
 * they are sent one by one.
 */
export function isStatementFailure(error: unknown): boolean {
  const sqlState = sqlStateOf(error);
  return (
    sqlState !== undefined && (sqlState === QUERY_CANCELED || !TRANSIENT_SQLSTATE_CLASSES.has(sqlState.slice(0, 2)))
  );
}

/** Whether a statement that failed may have been executed all the same: the connection ended before its result was known. */
export function isOutcomeUnknown(error: unknown): boolean {
  const sqlState = sqlStateOf(error);
  if (sqlState !== undefined) {
    // The server ended the session.
    return sqlState.startsWith('57P');
  }
  return error instanceof StatementError ? !NOT_CONNECTED.has(error.kind) : codeOf(error) !== 'ECONNREFUSED';
}

/** Whether a statement names something that does not exist, is of another kind or may not be used (class 42). */
export function isSchemaError(error: unknown): boolean {
  return sqlStateOf(error)?.startsWith('42') ?? false;
}

/**
 * Runs a database operation and turns each transient failure into `service_unavailable`. Other failures are bugs and
 * stay as they are.
 */
export async function databaseCall<T>(operation: () => PromiseLike<T>): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    throw toServiceError(error);
  }
}

/** The error that a failure of the database causes for the caller; see {@link databaseCall}. */
export function toServiceError(error: unknown): unknown {
  return isTransientDatabaseError(error)
    ? new DomainError('service_unavailable', 'The service is temporarily unavailable; retry shortly.', { cause: error })
    : error;
}

/** What Prisma's driver adapter says about a failure. */
interface AdapterCause {
  readonly kind?: string;
  readonly reason?: string;
  readonly host?: string;
  readonly port?: number;
  readonly originalCode?: string;
  readonly originalMessage?: string;
}

/** A failure in Prisma's driver adapter, whose own error has a message that is hardly more than its kind. */
class StatementError extends Error {
  readonly kind: string;
  /** The SQLSTATE, if the server gave one. */
  readonly code: string | undefined;

  constructor(cause: Error) {
    const { kind = '', reason, host, port, originalCode, originalMessage } = cause.cause as AdapterCause;
    const server = host === undefined ? undefined : `${host}:${String(port)}`;
    super(originalMessage ?? [kind, reason, server].filter((part) => part !== undefined).join(' '), { cause });
    this.name = 'StatementError';
    this.kind = kind;
    this.code = originalCode;
  }
}

/** Throws an error of Prisma's driver adapter as one that says what has failed. Other errors stay as they are. */
export function throwAsStatementError(error: unknown): never {
  throw error instanceof Error && error.name === 'DriverAdapterError' ? new StatementError(error) : error;
}

function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
}
