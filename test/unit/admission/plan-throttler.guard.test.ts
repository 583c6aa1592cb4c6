import type { ExecutionContext } from '@nestjs/common';
import { type ThrottlerModuleOptions, ThrottlerStorageService } from '@nestjs/throttler';
import type { AdmissionService } from '../../../src/admission/admission.service.js';
import { ApiKeyGuard, Public } from '../../../src/admission/api-key.guard.js';
import { CachedReflector } from '../../../src/admission/cached-reflector.js';
import { PlanThrottlerGuard } from '../../../src/admission/plan-throttler.guard.js';
import type { Rejection } from '../../../src/admission/rejection.js';
import { DomainError } from '../../../src/errors/domain-error.js';

class Routes {
  closed(): void {
    // Only its metadata counts.
  }

  @Public()
  open(): void {
    // Only its metadata counts.
  }
}

const LIMITED: Rejection = { by: 'limits', error: DomainError.of('rate_limit_exceeded') };
const WITHOUT_KEY: Rejection = { by: 'key', error: DomainError.of('missing_api_key') };

async function guardWith(
  rejection: Rejection | undefined,
  throttlers: number,
): Promise<{ guard: PlanThrottlerGuard; keyGuard: ApiKeyGuard; admit: jest.Mock }> {
  const admit = jest.fn(() => Promise.resolve(rejection));
  const options: ThrottlerModuleOptions = Array.from({ length: throttlers }, (_, number) => ({
    name: `throttler-${number}`,
    ttl: 60_000,
    limit: 1,
  }));
  const reflector = new CachedReflector();
  const admission = { admit } as unknown as AdmissionService;
  const guard = new PlanThrottlerGuard(options, new ThrottlerStorageService(), reflector, admission);
  await guard.onModuleInit();
  return { guard, keyGuard: new ApiKeyGuard(reflector, admission), admit };
}

function contextOf(handler: 'closed' | 'open'): ExecutionContext {
  return {
    getHandler: () => Object.getOwnPropertyDescriptor(Routes.prototype, handler)?.value as () => void,
    getClass: () => Routes,
    switchToHttp: () => ({ getRequest: () => ({}), getResponse: () => ({}) }),
  } as unknown as ExecutionContext;
}

describe('PlanThrottlerGuard', () => {
  it.each([1, 3])('rejects with the error of the limits with %i throttlers configured', async (throttlers) => {
    const { guard } = await guardWith(LIMITED, throttlers);
    await expect(guard.canActivate(contextOf('closed'))).rejects.toBe(LIMITED.error);
  });

  it.each([1, 3])(
    'admits any number of requests within the limits with %i throttlers of limit 1',
    async (throttlers) => {
      const { guard, admit } = await guardWith(undefined, throttlers);
      for (let request = 0; request < 5; request++) {
        await expect(guard.canActivate(contextOf('closed'))).resolves.toBe(true);
      }
      expect(admit).toHaveBeenCalledTimes(5 * throttlers);
    },
  );

  it('leaves the rejection of a missing key to the next guard', async () => {
    const { guard, keyGuard } = await guardWith(WITHOUT_KEY, 1);
    await expect(guard.canActivate(contextOf('closed'))).resolves.toBe(true);
    await expect(keyGuard.canActivate(contextOf('closed'))).rejects.toBe(WITHOUT_KEY.error);
    await expect(keyGuard.canActivate(contextOf('open'))).resolves.toBe(true);
  });

  it('skips public routes', async () => {
    const { guard, admit } = await guardWith(LIMITED, 2);
    await expect(guard.canActivate(contextOf('open'))).resolves.toBe(true);
    expect(admit).not.toHaveBeenCalled();
  });
});
