import { Plan as DatabasePlan } from '../../../src/database/generated/enums.js';
import { ANONYMOUS_QUOTAS, type Plan, PLAN_QUOTAS, PLANS, quotasOf } from '../../../src/plans/plans.js';

const NONE = { requestsPerMinute: null, requestsPerDay: null };

describe('quotasOf', () => {
  test.each<[Plan, number, number]>([
    // The table of section 8 of the interface.
    ['free', 60, 1_000],
    ['pro', 300, 10_000],
    ['business', 1_000, 100_000],
  ])(
    'returns the published quotas of the plan %s: %i per minute, %i per day',
    (plan, requestsPerMinute, requestsPerDay) => {
      expect(quotasOf(plan, NONE)).toEqual({ requestsPerMinute, requestsPerDay });
    },
  );

  it('ignores quotas on a key with a published plan', () => {
    expect(quotasOf('free', { requestsPerMinute: 9_999, requestsPerDay: 9_999 })).toEqual(quotasOf('free', NONE));
  });

  it('returns the custom quotas of an Enterprise key', () => {
    expect(quotasOf('enterprise', { requestsPerMinute: 7, requestsPerDay: 2_147_483_647 })).toEqual({
      requestsPerMinute: 7,
      requestsPerDay: 2_147_483_647,
    });
  });

  it('uses the quotas of the Free plan for requests without a key', () => {
    expect(ANONYMOUS_QUOTAS).toEqual(quotasOf('free', NONE));
  });

  test.each([
    [null, null],
    [100, null],
    [null, 100],
  ])('throws for an Enterprise key with %p per minute and %p per day', (requestsPerMinute, requestsPerDay) => {
    expect(() => quotasOf('enterprise', { requestsPerMinute, requestsPerDay })).toThrow('has no quotas of its own');
  });

  it.each(['platinum', '', 'FREE', 'custom'])('throws for the unknown plan "%s"', (plan) => {
    expect(() => quotasOf(plan as Plan, { requestsPerMinute: 5, requestsPerDay: 5 })).toThrow('No quotas are known');
  });

  it('returns frozen objects, which no caller can change', () => {
    const objects = [PLAN_QUOTAS, PLAN_QUOTAS.free, PLAN_QUOTAS.pro, PLAN_QUOTAS.business, ANONYMOUS_QUOTAS];
    expect(objects.filter((each) => !Object.isFrozen(each))).toEqual([]);
  });

  it('supports exactly the plans of the database', () => {
    expect([...PLANS]).toEqual(Object.values(DatabasePlan));
    expect([...Object.keys(PLAN_QUOTAS), 'enterprise']).toEqual([...PLANS]);
  });
});
