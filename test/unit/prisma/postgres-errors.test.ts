import { isTransientDatabaseError, sqlStateOf } from '../../../src/prisma/postgres-errors.js';

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
});
