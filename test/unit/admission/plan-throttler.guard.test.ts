import type { ExecutionContext } from '@nestjs/common';
import { type ThrottlerModuleOptions, ThrottlerStorageService } from '@nestjs/throttler';
import type { AdmissionService } from '../../../src/admission/admission.service.js';
import { CachedReflector } from '../../../src/admission/cached-reflector.js';
import { PlanThrottlerGuard } from '../../../src/admission/plan-throttler.guard.js';
import { Public, PublicRoutes } from '../../../src/admission/public-routes.js';
import type { Rejection } from '../../../src/admission/admission.js';
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
): Promise<{ guard: PlanThrottlerGuard; check: jest.Mock }> {
  const check = jest.fn(() => rejection);
  const options: ThrottlerModuleOptions = Array.from({ length: throttlers }, (_, number) => ({
    name: `throttler-${number}`,
    ttl: 60_000,
    limit: 1,
  }));
  const reflector = new CachedReflector();
  const admission = { check } as unknown as AdmissionService;
  const guard = new PlanThrottlerGuard(
    options,
    new ThrottlerStorageService(),
    reflector,
    new PublicRoutes(reflector),
    admission,
  );
  await guard.onModuleInit();
  return { guard, check };
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
      const { guard, check } = await guardWith(undefined, throttlers);
      for (let request = 0; request < 5; request++) {
        await expect(guard.canActivate(contextOf('closed'))).resolves.toBe(true);
      }
      expect(check).toHaveBeenCalledTimes(5 * throttlers);
    },
  );

  it('leaves the rejection of a missing key to the next guard', async () => {
    const { guard } = await guardWith(WITHOUT_KEY, 1);
    await expect(guard.canActivate(contextOf('closed'))).resolves.toBe(true);
  });

  it('skips public routes', async () => {
    const { guard, check } = await guardWith(LIMITED, 2);
    await expect(guard.canActivate(contextOf('open'))).resolves.toBe(true);
    expect(check).not.toHaveBeenCalled();
  });
});
