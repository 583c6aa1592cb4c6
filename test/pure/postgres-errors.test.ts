import { DriverAdapterError } from '@prisma/driver-adapter-utils';
import { Prisma } from '../../src/database/generated/client.js';
import { connectionError, isTransientDatabaseError, sqlStateOf } from '../../src/database/postgres-errors.js';

const coded = (code: string): Error => Object.assign(new Error('failed'), { code });

/** An error of Prisma's client. */
const ofPrisma = (code: string, meta: Record<string, unknown> = {}): Error =>
  new Prisma.PrismaClientKnownRequestError('failed', { code, meta, clientVersion: '' });

/** One of a raw query whose cause is an error of the driver adapter. */
const adapted = (cause: DriverAdapterError['cause']): Error =>
  ofPrisma('P2010', { driverAdapterError: new DriverAdapterError(cause) });

const SHUTDOWN = {
  kind: 'postgres',
  code: '57P01',
  originalCode: '57P01',
  severity: 'FATAL',
  message: 'terminating connection',
  ...{ detail: undefined, column: undefined, hint: undefined },
} as const;

describe('the SQLSTATE of an error, and whether the response is 503', () => {
  it.each<[what: string, unknown, sqlState: string | undefined, transient: boolean]>([
    ['a refused connection', coded('ECONNREFUSED'), undefined, true],
    ['a closed connection, whose code is like a SQLSTATE', coded('EPIPE'), undefined, true],
    ['what pg reports without a code', connectionError(new Error('Connection terminated')), undefined, true],
    ['an error of ours', new Error('A trigger keeps the order pending.'), undefined, false],
    ['too many connections', coded('53300'), '53300', true],
    ['a rejected connection', Object.assign(coded('55000'), { severity: 'FATAL' }), '55000', true],
    ['a rejected password', coded('28P01'), '28P01', true],
    ['a missing table', coded('42P01'), '42P01', false],
    ['a server that shuts down (Prisma)', adapted(SHUTDOWN), '57P01', true],
    ['a timeout (Prisma)', adapted({ kind: 'SocketTimeout' }), undefined, true],
    ['a TLS error (Prisma)', adapted({ kind: 'TlsConnectionError', reason: 'expired' }), undefined, true],
    [
      'an error that a trigger raises (Prisma)',
      adapted({ ...SHUTDOWN, originalCode: 'P0001', severity: 'ERROR' }),
      'P0001',
      false,
    ],
    ['nothing', undefined, undefined, false],
  ])('%s', (_what, error, sqlState, transient) => {
    expect([sqlStateOf(error), isTransientDatabaseError(error)]).toEqual([sqlState, transient]);
  });
});
