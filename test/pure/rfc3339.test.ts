import fc from 'fast-check';
import { parseTime } from '../../src/common/rfc3339.js';

describe('parseTime', () => {
  it.each([
    ['2026-12-01T10:00Z', '2026-12-01T10:00:00.000Z'],
    ['2026-12-01T10:00:00.123456789Z', '2026-12-01T10:00:00.123Z'],
    ['2026-12-01T10:00:00+02:00', '2026-12-01T08:00:00.000Z'],
    ['2028-02-29T00:00:00Z', '2028-02-29T00:00:00.000Z'],
    // The first and the last time that the list can represent.
    ['0000-12-31T23:59:59-00:01', '0001-01-01T00:00:59.000Z'],
    ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
  ])('parses %s as %s', (text, iso) => {
    expect(parseTime(text)?.toISOString()).toBe(iso);
  });

  it.each([
    '',
    '2026-12-01T10:00:00',
    '2026-12-01T10:00:00.1234567890Z',
    '2026-12-01T10:00:00+24:00',
    '2026-12-01T10:00:60Z',
    '2026-12-01T10:00:00Z\n',
    '2026-02-29T10:00:00Z',
    '0001-01-01T00:00:00+00:01',
    '9999-12-31T23:59:59-00:01',
  ])('returns undefined for %j', (text) => {
    expect(parseTime(text)).toBeUndefined();
  });

  it('parses every time in the format of the list', () => {
    const times = fc.date({ min: new Date('0001-01-01T00:00:00Z'), max: new Date('9999-12-31T23:59:59.999Z') });
    fc.assert(
      fc.property(
        times.filter((time) => !Number.isNaN(time.getTime())),
        (time) => {
          expect(parseTime(time.toISOString())).toEqual(time);
        },
      ),
    );
  });
});
