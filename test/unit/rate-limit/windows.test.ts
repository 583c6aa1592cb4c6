import { DAY_MS, MINUTE_MS, windowEndSeconds } from '../../../src/rate-limit/decision.js';

const seconds = (iso: string): number => Date.parse(iso) / 1_000;

describe('windowEndSeconds', () => {
  test.each([
    // now                         end of the minute           end of the day
    ['2026-11-21T12:00:00.000Z', '2026-11-21T12:01:00.000Z', '2026-11-22T00:00:00.000Z'],
    ['2026-11-21T12:00:00.001Z', '2026-11-21T12:01:00.000Z', '2026-11-22T00:00:00.000Z'],
    ['2026-11-21T12:00:59.999Z', '2026-11-21T12:01:00.000Z', '2026-11-22T00:00:00.000Z'],
    ['2026-11-21T00:00:00.000Z', '2026-11-21T00:01:00.000Z', '2026-11-22T00:00:00.000Z'],
    ['2026-11-21T23:59:00.000Z', '2026-11-22T00:00:00.000Z', '2026-11-22T00:00:00.000Z'],
    ['2026-11-21T23:59:59.999Z', '2026-11-22T00:00:00.000Z', '2026-11-22T00:00:00.000Z'],
    // Ends of a month, a leap day and a year.
    ['2028-02-29T23:59:59.999Z', '2028-03-01T00:00:00.000Z', '2028-03-01T00:00:00.000Z'],
    ['2027-02-28T23:59:59.999Z', '2027-03-01T00:00:00.000Z', '2027-03-01T00:00:00.000Z'],
    ['2026-12-31T23:59:30.000Z', '2027-01-01T00:00:00.000Z', '2027-01-01T00:00:00.000Z'],
    // The end of daylight saving time in Europe: a UTC day still has 24 hours.
    ['2026-10-25T00:59:59.999Z', '2026-10-25T01:00:00.000Z', '2026-10-26T00:00:00.000Z'],
  ])('for %s returns the end of the UTC minute %s and of the UTC day %s', (now, minuteEnd, dayEnd) => {
    expect(windowEndSeconds(Date.parse(now), MINUTE_MS)).toBe(seconds(minuteEnd));
    expect(windowEndSeconds(Date.parse(now), DAY_MS)).toBe(seconds(dayEnd));
  });
});
