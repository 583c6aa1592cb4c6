import { Plan as DatabasePlan } from '../../../src/database/generated/enums.js';
import { ANONYMOUS_QUOTAS, type Plan, PLAN_QUOTAS, PLANS, quotasOf } from '../../../src/plans/plans.js';

const NONE = { requestsPerMinute: null, requestsPerDay: null };

const CUSTOM = { requestsPerMinute: 7, requestsPerDay: 2_147_483_647 };

describe('quotasOf', () => {
  test.each<[Plan, typeof CUSTOM | typeof NONE, number, number]>([
    // The table of section 8 of the interface.
    ['free', NONE, 60, 1_000],
    ['free', CUSTOM, 60, 1_000],
    ['pro', NONE, 300, 10_000],
    ['business', NONE, 1_000, 100_000],
    ['enterprise', CUSTOM, 7, 2_147_483_647],
  ])('of the plan %s for a key with %j are %i per minute and %i per day', (plan, custom, perMinute, perDay) => {
    expect(quotasOf(plan, custom)).toEqual({ requestsPerMinute: perMinute, requestsPerDay: perDay });
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
