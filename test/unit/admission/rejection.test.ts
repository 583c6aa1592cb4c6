import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import type { ExecutionContext } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { ThrottlerStorageService } from '@nestjs/throttler';
import { ApiKeyGuard, PlanThrottlerGuard, Public } from '../../../src/admission/admission.guards.js';
import { INVALID_API_KEY, MISSING_API_KEY, rejectionOf } from '../../../src/admission/rejection.js';
import { type Admission, RequestContext } from '../../../src/http/request-context.js';
import { ANONYMOUS_QUOTAS } from '../../../src/plans/plans.js';
import { type Verdict, verdictOfUnused } from '../../../src/rate-limit/decision.js';

const FAILURE = new Error('connection refused');
type Caller = Pick<Admission, 'account' | 'error'>;

const KEY: Caller = { account: { id: 'a', plan: 'free', quotas: ANONYMOUS_QUOTAS } };
const UNVERIFIED: Caller = { ...KEY, error: FAILURE };
const ADDRESS = { id: '203.0.113.7', plan: 'anonymous', quotas: ANONYMOUS_QUOTAS } as const;
const MISSING: Caller = { account: ADDRESS, error: MISSING_API_KEY };
const INVALID: Caller = { account: ADDRESS, error: INVALID_API_KEY };

function admission(caller: Caller, outcome: Verdict['outcome'] = 'admitted'): Admission {
  return { ...caller, verdict: { ...verdictOfUnused(ANONYMOUS_QUOTAS, 0), outcome } };
}

describe('rejectionOf', () => {
  it('returns undefined when the key is valid and both windows admit the request', () => {
    expect(rejectionOf(admission(KEY))).toBeUndefined();
  });

  test.each<[outcome: Verdict['outcome'], who: string, code: string, Caller, message: RegExp]>([
    ['limited', 'a key', 'rate_limit_exceeded', KEY, /Retry-After/],
    ['limited', 'an address with an invalid key', 'rate_limit_exceeded', INVALID, /Retry-After/],
    ['banned', 'a key', 'api_key_banned', KEY, /^This API key is temporarily banned.*Retry-After/],
    ['banned', 'a key that could not be verified', 'api_key_banned', UNVERIFIED, /^This API key/],
    ['banned', 'an address without a key', 'address_banned', MISSING, /^This address is .* banned.*Retry-After/],
  ])('rejects by limits, before the key, when %s for %s: %s', (outcome, _who, code, caller, message) => {
    const rejection = rejectionOf(admission(caller, outcome));
    const body = expect.stringMatching(message) as string;
    expect(rejection).toMatchObject({ code, message: body, response: { status: 429 } });
  });

  test.each<[string, Caller, string, string]>([
    [
      'explains how to send a key',
      MISSING,
      'missing_api_key',
      'An API key is required: send it as "Authorization: Bearer <key>".',
    ],
    ['says only that the key is not valid', INVALID, 'invalid_api_key', 'The API key is not valid.'],
  ])('%s', (_what, caller, code, message) => {
    const rejection = rejectionOf(admission(caller));
    expect(rejection).toMatchObject({ code, message, response: { status: 401 } });
  });

  it('rejects with the failure of the look-up when the key could not be verified', () => {
    expect(rejectionOf(admission(UNVERIFIED))).toBe(FAILURE);
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
  new RequestContext(req).admission = admitted;
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
    const limited = requestFor('closed', admission(MISSING, 'limited'));
    await expect(throttler.canActivate(limited)).rejects.toMatchObject({ code: 'rate_limit_exceeded' });
    const missing = requestFor('closed', admission(MISSING));
    await expect(throttler.canActivate(missing)).resolves.toBe(true);
    expect(() => keyGuard.canActivate(missing)).toThrow(expect.objectContaining({ code: 'missing_api_key' }) as Error);
  });

  it('open only public routes to a request that was not decided', () => {
    expect(keyGuard.canActivate(requestFor('open'))).toBe(true);
    expect(() => keyGuard.canActivate(requestFor('closed'))).toThrow('neither public nor under /v1');
  });
});
