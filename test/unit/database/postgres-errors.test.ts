import { DriverAdapterError } from '@prisma/driver-adapter-utils';
import { DeadlineExceeded } from '../../../src/common/deadline.js';
import { isTransientDatabaseError, sqlStateOf, throwAsStatementError } from '../../../src/database/postgres-errors.js';

describe('sqlStateOf and isTransientDatabaseError', () => {
  it.each([
    'ECONNREFUSED',
    'ECONNRESET',
    'EPIPE',
    'ETIMEDOUT',
    'ENOTFOUND',
    'EAI_AGAIN',
    'EHOSTUNREACH',
    'ENETUNREACH',
    'ENOENT',
  ])('treats the code %s as transient and not as a SQLSTATE', (code) => {
    const error = Object.assign(new Error('lost'), { code });
    expect(sqlStateOf(error)).toBeUndefined();
    expect(isTransientDatabaseError(error)).toBe(true);
  });

  it.each([
    ['57P01', true],
    ['53300', true],
    ['08006', true],
    ['23514', false],
    ['42P01', false],
  ])('recognizes the SQLSTATE %s; transient: %s', (code, transient) => {
    const error = Object.assign(new Error('from the server'), { code });
    expect(sqlStateOf(error)).toBe(code);
    expect(isTransientDatabaseError(error)).toBe(transient);
  });

  const shutdown = new DriverAdapterError({
    kind: 'postgres',
    code: '57P01',
    severity: 'FATAL',
    message: 'terminating connection',
    detail: undefined,
    column: undefined,
    hint: undefined,
    originalCode: '57P01',
  });
  const unreachable = new DriverAdapterError({ kind: 'DatabaseNotReachable', host: '127.0.0.1', port: 5432 });

  it.each<[string, string | undefined, DriverAdapterError]>([
    ['an error of the server', '57P01', shutdown],
    ['an unreachable server', undefined, unreachable],
  ])('treats as transient %s that the driver adapter reports', (_what, sqlState, cause) => {
    const error = statementErrorOf(cause);
    expect(sqlStateOf(error)).toBe(sqlState);
    expect(isTransientDatabaseError(error)).toBe(true);
  });

  const refused = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
  const denied = Object.assign(new Error('denied'), { code: '28P01' });

  it.each<[string, boolean, unknown]>([
    ['a timeout', true, new DeadlineExceeded(1_000)],
    ['a lost connection without an error code', true, new Error('Connection terminated')],
    ['a server whose addresses all fail temporarily', true, new AggregateError([refused, refused])],
    ['a server with an address that fails permanently', false, new AggregateError([refused, denied])],
    ['a programming error', false, new TypeError('undefined is not a function')],
    ['a failure of the adapter itself', false, statementErrorOf(new DriverAdapterError({ kind: 'GenericJs', id: 1 }))],
    ['undefined', false, undefined],
  ])('classifies %s; transient: %s', (_what, transient, error) => {
    expect(isTransientDatabaseError(error)).toBe(transient);
  });
});

function statementErrorOf(error: DriverAdapterError): Error {
  try {
    return throwAsStatementError(error);
  } catch (statementError) {
    return statementError as Error;
  }
}
