import { DeadlineExceeded } from '../../../src/common/deadline.js';
import { Prisma } from '../../../src/database/generated/client.js';
import { isTransientDatabaseError, sqlStateOf } from '../../../src/database/postgres-errors.js';

describe('what a failure of the database means', () => {
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
    'P1001',
    'P2024',
  ])('%s is no SQLSTATE, and it passes', (code) => {
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
  ])('%s is a SQLSTATE; that it passes is %s', (code, passes) => {
    const error = Object.assign(new Error('said by the server'), { code });
    expect(sqlStateOf(error)).toBe(code);
    expect(isTransientDatabaseError(error)).toBe(passes);
  });

  const refused = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
  const denied = Object.assign(new Error('denied'), { code: '28P01' });

  it.each<[string, boolean, unknown]>([
    ['an answer that does not come in time', true, new DeadlineExceeded(1_000)],
    ['a connection that is lost, of which the driver says no more', true, new Error('Connection terminated')],
    ['a client that cannot start', true, new Prisma.PrismaClientInitializationError('away', '7.10.0')],
    ['every address of a server failing', true, new AggregateError([refused, refused])],
    ['one address failing for good', false, new AggregateError([refused, denied])],
    ['a defect of ours', false, new TypeError('undefined is not a function')],
    ['a code of Prisma for a question that is wrong', false, Object.assign(new Error('no'), { code: 'P2010' })],
    ['nothing that is an error', false, undefined],
  ])('%s: that it passes is %s', (_what, passes, error) => {
    expect(isTransientDatabaseError(error)).toBe(passes);
  });
});
