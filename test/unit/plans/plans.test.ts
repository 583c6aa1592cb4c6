import { Plan as DatabasePlan } from '../../../src/database/generated/enums.js';
import { ANONYMOUS_QUOTAS, type Plan, PLAN_QUOTAS, PLANS, quotasOf } from '../../../src/plans/plans.js';

const NONE = { requestsPerMinute: null, requestsPerDay: null };

describe('the quotas', () => {
  test.each<[Plan, number, number]>([
    // The table of section 8 of the interface.
    ['free', 60, 1_000],
    ['pro', 300, 10_000],
    ['business', 1_000, 100_000],
  ])('of the plan %s are the published %i a minute and %i a day', (plan, requestsPerMinute, requestsPerDay) => {
    expect(quotasOf(plan, NONE)).toEqual({ requestsPerMinute, requestsPerDay });
  });

  it('of a published plan are not changed by figures on the key', () => {
    expect(quotasOf('free', { requestsPerMinute: 9_999, requestsPerDay: 9_999 })).toEqual(quotasOf('free', NONE));
  });

  it('of an enterprise key are its own', () => {
    expect(quotasOf('enterprise', { requestsPerMinute: 7, requestsPerDay: 2_147_483_647 })).toEqual({
      requestsPerMinute: 7,
      requestsPerDay: 2_147_483_647,
    });
  });

  it('of requests without a key are those of the Free plan', () => {
    expect(ANONYMOUS_QUOTAS).toEqual(quotasOf('free', NONE));
  });

  test.each([
    [null, null],
    [100, null],
    [null, 100],
  ])('of an enterprise key with %p a minute and %p a day admit nobody', (requestsPerMinute, requestsPerDay) => {
    expect(() => quotasOf('enterprise', { requestsPerMinute, requestsPerDay })).toThrow('has no quotas of its own');
  });

  it.each(['platinum', '', 'FREE', 'custom'])('of the unknown plan "%s" admit nobody', (plan) => {
    expect(() => quotasOf(plan as Plan, { requestsPerMinute: 5, requestsPerDay: 5 })).toThrow('No quotas are known');
  });

  it('cannot be changed while the service runs', () => {
    expect(Object.isFrozen(PLAN_QUOTAS)).toBe(true);
    expect(Object.isFrozen(PLAN_QUOTAS.free)).toBe(true);
    expect(Object.isFrozen(PLAN_QUOTAS.pro)).toBe(true);
    expect(Object.isFrozen(PLAN_QUOTAS.business)).toBe(true);
    expect(Object.isFrozen(ANONYMOUS_QUOTAS)).toBe(true);
  });

  it('exist for exactly the plans that the database knows', () => {
    expect([...PLANS]).toEqual(Object.values(DatabasePlan));
    expect(Object.keys(PLAN_QUOTAS)).toEqual([...PLANS]);
  });
});
