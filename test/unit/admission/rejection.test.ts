import { rejectionOf } from '../../../src/admission/rejection.js';
import type { Admission, Caller } from '../../../src/http/request-context.js';
import { ANONYMOUS_QUOTAS } from '../../../src/plans/plans.js';
import { verdictOfUnused } from '../../../src/rate-limit/decision.js';
import { subjectOfAddress, subjectOfKey } from '../../../src/rate-limit/subject.js';
import type { Verdict } from '../../../src/rate-limit/verdict.js';

const QUOTAS = ANONYMOUS_QUOTAS;
const KEY: Caller = {
  kind: 'key',
  key: { id: 'a', quotas: QUOTAS, expiresAtMs: null } as never,
  subject: subjectOfKey('a'),
  quotas: QUOTAS,
};
const FAILURE = new Error('connection refused');
const UNVERIFIED: Caller = { kind: 'unverified', failure: FAILURE };

function anonymous(credentials: 'missing' | 'invalid'): Caller {
  return { kind: 'anonymous', credentials, subject: subjectOfAddress('203.0.113.7'), quotas: QUOTAS };
}

function admission(caller: Caller, outcome: Verdict['outcome'] = 'admitted'): Admission {
  return { caller, verdict: { ...verdictOfUnused(QUOTAS, 0), outcome }, headers: [] };
}

describe('rejectionOf', () => {
  it('returns undefined when the key is valid and both windows admit the request', () => {
    expect(rejectionOf(admission(KEY))).toBeUndefined();
  });

  test.each<[outcome: Verdict['outcome'], subject: string, code: string, Caller]>([
    ['limited', 'a key', 'rate_limit_exceeded', KEY],
    ['limited', 'an address with an invalid key', 'rate_limit_exceeded', anonymous('invalid')],
    ['banned', 'a key', 'api_key_banned', KEY],
    ['banned', 'an address without a key', 'address_banned', anonymous('missing')],
    ['banned', 'an address with an invalid key', 'address_banned', anonymous('invalid')],
  ])('rejects by limits, before the key, when %s for %s: %s', (outcome, _subject, code, caller) => {
    expect(rejectionOf(admission(caller, outcome))).toMatchObject({ by: 'limits', error: { code } });
  });

  test.each<[string, Caller, Verdict['outcome'], RegExp]>([
    ['a limited key', KEY, 'limited', /Retry-After/],
    ['a banned key', KEY, 'banned', /^This API key is temporarily banned.*Retry-After/],
    ['a banned address', anonymous('missing'), 'banned', /^This address is temporarily banned.*Retry-After/],
  ])('names the cause and Retry-After in the message for %s', (_who, caller, outcome, message) => {
    expect(rejectionOf(admission(caller, outcome))?.error.message).toMatch(message);
  });

  it('explains how to send a key when none was sent', () => {
    expect(rejectionOf(admission(anonymous('missing')))).toMatchObject({
      by: 'key',
      error: {
        code: 'missing_api_key',
        message: 'An API key is required: send it as "Authorization: Bearer <key>".',
      },
    });
  });

  it('says only that the key is not valid when one was sent', () => {
    expect(rejectionOf(admission(anonymous('invalid')))).toMatchObject({
      by: 'key',
      error: { code: 'invalid_api_key', message: 'The API key is not valid.' },
    });
  });

  it('rejects with the failure of the look-up when the key could not be verified', () => {
    expect(rejectionOf(admission(UNVERIFIED))).toEqual({ by: 'error', error: FAILURE });
  });
});
