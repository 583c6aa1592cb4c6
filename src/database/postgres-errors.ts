import type { DriverAdapterError } from '@prisma/driver-adapter-utils';
import { asError } from '../common/as-error.js';
import { DomainError } from '../errors/domain-error.js';

/** Another transaction held a lock for longer than `lock_timeout` (PostgreSQL documentation, appendix A). */
export const LOCK_NOT_AVAILABLE = '55P03';
/** A standby, or a server that no longer accepts writes. */
export const READ_ONLY_TRANSACTION = '25006';
/** By `statement_timeout` or by an administrator. */
const QUERY_CANCELED = '57014';
const SERIALIZATION_FAILURE = '40001';
export const UNDEFINED_TABLE = '42P01';

/** Transient conditions: the same request may succeed a moment later. */
const TRANSIENT_SQLSTATES: ReadonlySet<string> = new Set([
  LOCK_NOT_AVAILABLE,
  '25P03', // idle_in_transaction_session_timeout
  '40P01', // deadlock_detected
  SERIALIZATION_FAILURE,
  READ_ONLY_TRANSACTION,
]);

/**
 * Classes of SQLSTATE whose codes are all transient: connection failure (08), login rejected (28) and database missing (3D), as during a
 * restore, insufficient resources (53), operator intervention (57), system error (58).
 */
const TRANSIENT_SQLSTATE_CLASSES: ReadonlySet<string> = new Set(['08', '28', '3D', '53', '57', '58']);

/** Node's codes for the errors of the operating system and of name resolution, such as `ECONNREFUSED`. */
const SYSTEM_ERROR = /^E(?!RR_)[A-Z_]+$/;

/** Node's codes for certificates and TLS. */
const TLS_ERROR =
  /^(?:ERR_TLS|ERR_SSL|ERR_OSSL|CERT_|UNABLE_TO_|(?:DEPTH_ZERO_)?SELF_SIGNED|INVALID_CA|HOSTNAME_MISMATCH)/;

/** Node's code for a connection that is none (any more). */
const NOT_CONNECTED_CODE = 'ENOTCONN';

/** Codes of Prisma's own, such as P2025; some have the form of a SQLSTATE. */
const PRISMA_CODE = /^P\d{4}$/;

/** Node's codes for what Prisma's driver adapter names without one. */
const CODE_OF_ADAPTER_KIND: Readonly<Record<string, string>> = {
  DatabaseNotReachable: 'ECONNREFUSED',
  ConnectionClosed: 'ECONNRESET',
  SocketTimeout: 'ETIMEDOUT',
  TlsConnectionError: 'ERR_TLS_HANDSHAKE',
};

/** Whether TLS could not be established, such as with an expired certificate. */
export function isTlsError(code: string | undefined): boolean {
  return code !== undefined && TLS_ERROR.test(code);
}

/** The SQLSTATE of an error; undefined when the server did not give one. */
export function sqlStateOf(error: unknown): string | undefined {
  const code = codeOf(error);
  // `EPIPE` has five characters, too.
  return code === undefined || SYSTEM_ERROR.test(code) || !/^[0-9A-Z]{5}$/.test(code) ? undefined : code;
}

/** Whether the database is unavailable, shutting down, overloaded or busy, so that the response is 503 and not 500. */
export function isTransientDatabaseError(error: unknown): boolean {
  const sqlState = sqlStateOf(error);
  if (sqlState !== undefined) {
    return isFatal(error) || TRANSIENT_SQLSTATES.has(sqlState) || TRANSIENT_SQLSTATE_CLASSES.has(sqlState.slice(0, 2));
  }
  const code = codeOf(error);
  return code !== undefined && (SYSTEM_ERROR.test(code) || isTlsError(code));
}

/**
 * Gives a code to what `pg` reports without one: a lost connection, no free one, no response in time. Only for errors of its own calls:
 * without a code any other error is a bug of ours.
 */
export function connectionError(error: unknown): unknown {
  const isBare = error instanceof Error && Object.getPrototypeOf(error) === Error.prototype && !('code' in error);
  return isBare ? Object.assign(error, { code: NOT_CONNECTED_CODE }) : error;
}

/** Makes a method of `pg` reject with {@link connectionError}. */
export function markConnectionErrors<Name extends string>(target: Record<Name, unknown>, name: Name): void {
  const original = (target[name] as (...args: unknown[]) => unknown).bind(target);
  target[name] = (...args: unknown[]) => {
    const result = original(...args);
    return result instanceof Promise
      ? result.catch((error: unknown) => {
          throw connectionError(error);
        })
      : result;
  };
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

/** Whether PostgreSQL has ended the connection, or rejected it: for whatever reason, it concerns no statement. */
function isFatal(error: unknown): boolean {
  return reportOf(error)?.severity === 'FATAL';
}

/**
 * Runs a database operation and turns each transient failure into `service_unavailable`. Other failures are bugs and
 * stay as they are.
 */
export async function databaseCall<T>(operation: () => PromiseLike<T>): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    throw isTransientDatabaseError(error) ? new DomainError('service_unavailable', undefined, { cause: error }) : error;
  }
}

/** What PostgreSQL or the driver said, in one line: Prisma's messages begin with the call that failed. */
export function databaseMessageOf(error: unknown): string {
  const { message } = asError(error);
  return (
    causeOf(error)?.originalMessage ?? (isOfPrisma(error) ? message.slice(message.lastIndexOf('\n') + 1) : message)
  );
}

/** What the driver has reported: `pg` as an error, Prisma within one. */
interface Report {
  readonly code?: unknown;
  readonly severity?: unknown;
}

function reportOf(error: unknown): Report | null | undefined {
  const cause = causeOf(error);
  if (cause !== undefined) {
    return { severity: cause.severity, code: cause.originalCode ?? CODE_OF_ADAPTER_KIND[cause.kind] ?? cause.kind };
  }
  const report = error as Report | null | undefined;
  return isOfPrisma(error) && PRISMA_CODE.test(String(report?.code)) ? undefined : report;
}

function codeOf(error: unknown): string | undefined {
  const code = reportOf(error)?.code;
  return typeof code === 'string' ? code : undefined;
}

/** Of PostgreSQL's errors some have a severity. */
type AdapterCause = DriverAdapterError['cause'] & { readonly severity?: string };

/** The error of the driver adapter in one of Prisma's client, of queries and models alike. */
function causeOf(error: unknown): AdapterCause | undefined {
  const { meta } = (error ?? {}) as { meta?: { driverAdapterError?: { cause?: AdapterCause } } };
  return meta?.driverAdapterError?.cause;
}

/** By name: this file is loaded where Prisma's client is not. */
function isOfPrisma(error: unknown): boolean {
  return error instanceof Error && error.name === 'PrismaClientKnownRequestError';
}
