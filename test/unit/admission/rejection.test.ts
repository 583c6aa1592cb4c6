import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import type { ExecutionContext } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { ThrottlerStorageService } from '@nestjs/throttler';
import { ApiKeyGuard, Public } from '../../../src/admission/api-key.guard.js';
import { PlanThrottlerGuard } from '../../../src/admission/plan-throttler.guard.js';
import { rejectionOf } from '../../../src/admission/rejection.js';
import { type Admission, type Caller, RequestContext } from '../../../src/http/request-context.js';
import { ANONYMOUS_QUOTAS } from '../../../src/plans/plans.js';
import { verdictOfUnused } from '../../../src/rate-limit/decision.js';
import { subjectOfAddress, subjectOfKey } from '../../../src/rate-limit/subject.js';
import type { Verdict } from '../../../src/rate-limit/verdict.js';

const QUOTAS = ANONYMOUS_QUOTAS;
const KEY: Caller = {
  kind: 'key',
  key: { id: 'a', plan: 'free', quotas: QUOTAS, expiresAtMs: undefined },
  account: { subject: subjectOfKey('a'), quotas: QUOTAS, plan: 'free', usageId: 'a' },
};
const FAILURE = new Error('connection refused');
const UNVERIFIED: Caller = { kind: 'unverified', failure: FAILURE };

function anonymous(credentials: 'missing' | 'invalid'): Caller {
  const subject = subjectOfAddress('203.0.113.7');
  return { kind: 'anonymous', credentials, account: { subject, quotas: QUOTAS, plan: 'anonymous', usageId: '-' } };
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
    ['banned', 'a key that could not be verified', 'api_key_banned', UNVERIFIED],
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

class Routes {
  closed(): void {
    // Only its metadata counts.
  }

  @Public()
  open(): void {
    // Only its metadata counts.
  }
}

/** A request for a handler; without an admission it is not under `/v1`. */
function requestFor(handler: 'closed' | 'open', admitted?: Admission): ExecutionContext {
  const req = new IncomingMessage(new Socket());
  RequestContext.begin(req).admission = admitted;
  return {
    getHandler: () => Object.getOwnPropertyDescriptor(Routes.prototype, handler)?.value as () => void,
    getClass: () => Routes,
    switchToHttp: () => ({ getRequest: () => req }),
  } as unknown as ExecutionContext;
}

describe('the guards', () => {
  const keyGuard = new ApiKeyGuard(new Reflector());
  const throttler = new PlanThrottlerGuard([{ ttl: 60_000, limit: 1 }], new ThrottlerStorageService(), new Reflector());

  it('admit any number of admitted requests, whatever the limits of the library are', async () => {
    await throttler.onModuleInit();
    for (let request = 0; request < 3; request++) {
      await expect(throttler.canActivate(requestFor('closed', admission(KEY)))).resolves.toBe(true);
      expect(keyGuard.canActivate(requestFor('closed', admission(KEY)))).toBe(true);
    }
  });

  it('reject a request over its limits, then one without a key', async () => {
    const limited = requestFor('closed', admission(anonymous('missing'), 'limited'));
    await expect(throttler.canActivate(limited)).rejects.toMatchObject({ code: 'rate_limit_exceeded' });
    const missing = requestFor('closed', admission(anonymous('missing')));
    await expect(throttler.canActivate(missing)).resolves.toBe(true);
    expect(() => keyGuard.canActivate(missing)).toThrow(expect.objectContaining({ code: 'missing_api_key' }) as Error);
  });

  it('open only public routes to a request that was not decided', () => {
    expect(keyGuard.canActivate(requestFor('open'))).toBe(true);
    expect(() => keyGuard.canActivate(requestFor('closed'))).toThrow('neither public nor under /v1');
  });
});
