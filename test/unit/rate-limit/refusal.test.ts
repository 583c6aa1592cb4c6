import { verdictOfUnused } from '../../../src/rate-limit/decision.js';
import type { Admission, Caller } from '../../../src/rate-limit/caller.js';
import { ANONYMOUS_QUOTAS } from '../../../src/rate-limit/plans.js';
import { refusalByKey, refusalByLimits } from '../../../src/rate-limit/refusal.js';
import { subjectOfAddress, subjectOfKey } from '../../../src/rate-limit/subject.js';
import type { Verdict } from '../../../src/rate-limit/verdict.js';

const QUOTAS = ANONYMOUS_QUOTAS;
const KEY: Caller = {
  kind: 'key',
  key: { id: 'a', quotas: QUOTAS, expiresAtMs: null } as never,
  subject: subjectOfKey('a'),
  quotas: QUOTAS,
};
const FAILURE = new Error('The database is away.');
const UNVERIFIED: Caller = { kind: 'unverified', failure: FAILURE };

function anonymous(credentials: 'missing' | 'invalid'): Caller {
  return { kind: 'anonymous', credentials, subject: subjectOfAddress('203.0.113.7'), quotas: QUOTAS };
}

function admission(caller: Caller, outcome: Verdict['outcome'] = 'admitted'): Admission {
  return { caller, verdict: { ...verdictOfUnused(QUOTAS, 0), outcome } };
}

describe('by its limits a request', () => {
  test.each<[Verdict['outcome'], string, string | undefined, Caller]>([
    ['admitted', 'a key', undefined, KEY],
    ['admitted', 'an address', undefined, anonymous('missing')],
    ['admitted', 'nobody, since nothing is known of its key', undefined, UNVERIFIED],
    ['limited', 'a key', 'rate_limit_exceeded', KEY],
    ['limited', 'an address', 'rate_limit_exceeded', anonymous('invalid')],
    ['banned', 'a key', 'api_key_banned', KEY],
    ['banned', 'an address', 'address_banned', anonymous('missing')],
    ['banned', 'an address that sent a wrong key', 'address_banned', anonymous('invalid')],
  ])('that is %s and counted against %s is refused as %s', (outcome, _who, code, caller) => {
    expect(refusalByLimits(admission(caller, outcome))?.code).toBe(code);
  });

  it('is told where to read how long to wait', () => {
    for (const outcome of ['limited', 'banned'] as const) {
      for (const caller of [KEY, anonymous('missing')]) {
        expect(refusalByLimits(admission(caller, outcome))?.message).toMatch(/Retry-After/);
      }
    }
  });

  it('is told of whom it is that a ban is', () => {
    expect(refusalByLimits(admission(KEY, 'banned'))?.message).toMatch(/^This API key is banned/);
    expect(refusalByLimits(admission(anonymous('missing'), 'banned'))?.message).toMatch(/^This address is banned/);
  });
});

describe('by its key a request', () => {
  it('is let in when the key is valid', () => {
    expect(refusalByKey(admission(KEY))).toBeUndefined();
  });

  it('is told how to send a key when it has none', () => {
    expect(refusalByKey(admission(anonymous('missing')))).toMatchObject({
      code: 'missing_api_key',
      message: 'An API key is required: send it as "Authorization: Bearer <key>".',
    });
  });

  it('is told no more than that the key is not valid', () => {
    expect(refusalByKey(admission(anonymous('invalid')))).toMatchObject({
      code: 'invalid_api_key',
      message: 'The API key is not valid.',
    });
  });

  it('fails as asking about the key has failed', () => {
    expect(refusalByKey(admission(UNVERIFIED))).toBe(FAILURE);
  });
});
