import { DeadlineExceeded } from '../common/deadline.js';
import { Prisma } from './generated/client.js';

/** The SQLSTATE codes that this service tells apart (PostgreSQL documentation, appendix A). */
export const PostgresError = {
  lockNotAvailable: '55P03',
  idleInTransactionTimeout: '25P03',
  deadlockDetected: '40P01',
  serializationFailure: '40001',
  readOnlySqlTransaction: '25006',
  invalidPassword: '28P01',
  checkViolation: '23514',
  uniqueViolation: '23505',
} as const;

/** Conditions that pass: the same request may well succeed a moment later. */
const TRANSIENT_SQLSTATES: ReadonlySet<string> = new Set([
  PostgresError.lockNotAvailable,
  PostgresError.idleInTransactionTimeout,
  PostgresError.deadlockDetected,
  PostgresError.serializationFailure,
  PostgresError.readOnlySqlTransaction,
]);

/**
 * Classes of SQLSTATE of which that is true throughout: connections that fail (08), resources that run out (53),
 * operators who intervene (57), disks and systems that fail (58).
 */
const TRANSIENT_SQLSTATE_CLASSES: ReadonlySet<string> = new Set(['08', '53', '57', '58']);

/** Prisma's own codes for a server that is away: unreachable, timed out, closed, pool exhausted, too many connections. */
const TRANSIENT_PRISMA_CODES: ReadonlySet<string> = new Set([
  'P1001',
  'P1002',
  'P1008',
  'P1017',
  'P2024',
  'P2034',
  'P2037',
]);

/** What the driver adapter calls a server that is away, where Prisma has no code of its own for it (raw queries). */
const TRANSIENT_ADAPTER_KINDS: ReadonlySet<string> = new Set([
  'DatabaseNotReachable',
  'ConnectionClosed',
  'SocketTimeout',
  'TooManyConnections',
  'TransactionWriteConflict',
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

/** The SQLSTATE of an error of `pg` or of a Prisma raw query; undefined when the server did not give one. */
export function sqlStateOf(error: unknown): string | undefined {
  if (error instanceof Prisma.PrismaClientKnownRequestError) {
    return adapterCauseOf(error)?.originalCode;
  }
  const code = codeOf(error);
  // Codes of Prisma and of sockets (`EPIPE`) may have five characters too.
  const isForeign = code === undefined || TRANSIENT_PRISMA_CODES.has(code) || TRANSIENT_SOCKET_CODES.has(code);
  return isForeign || !/^[0-9A-Z]{5}$/.test(code) ? undefined : code;
}

/** Whether the database is away, shutting down, overloaded or busy, so that the answer is 503 and not 500. */
export function isTransientDatabaseError(error: unknown): boolean {
  const sqlState = sqlStateOf(error);
  if (sqlState !== undefined) {
    return TRANSIENT_SQLSTATES.has(sqlState) || TRANSIENT_SQLSTATE_CLASSES.has(sqlState.slice(0, 2));
  }
  if (error instanceof Prisma.PrismaClientInitializationError) {
    return true;
  }
  if (
    error instanceof Prisma.PrismaClientKnownRequestError &&
    TRANSIENT_ADAPTER_KINDS.has(adapterCauseOf(error)?.kind ?? '')
  ) {
    return true;
  }
  const code = codeOf(error);
  if (code !== undefined) {
    return TRANSIENT_PRISMA_CODES.has(code) || TRANSIENT_SOCKET_CODES.has(code);
  }
  if (error instanceof DeadlineExceeded) {
    return true;
  }
  if (error instanceof AggregateError) {
    return error.errors.every(isTransientDatabaseError);
  }
  // `pg` reports a lost connection and a pool that stayed full as a bare Error, without a code to tell them by.
  return error instanceof Error && Object.getPrototypeOf(error) === Error.prototype;
}

interface AdapterCause {
  readonly kind?: string;
  readonly originalCode?: string;
}

function adapterCauseOf({ meta }: Prisma.PrismaClientKnownRequestError): AdapterCause | undefined {
  return (meta?.driverAdapterError as { cause?: AdapterCause } | undefined)?.cause;
}

function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
}
