import { InvalidArgumentError } from 'commander';
import { duration, futureTime, keyId, keyName, plan, wholeNumber } from '../../src/cli/arguments.js';

const NOW = new Date('2026-11-21T12:00:00.000Z');

beforeEach(() => {
  jest.useFakeTimers({ now: NOW });
});
afterEach(() => {
  jest.useRealTimers();
});

describe('--expires-at', () => {
  test.each([
    ['2027-01-31T12:00:00Z', '2027-01-31T12:00:00.000Z'],
    ['2027-01-31T12:00:00.5Z', '2027-01-31T12:00:00.500Z'],
    ['2027-01-31T12:00:00.123Z', '2027-01-31T12:00:00.123Z'],
    ['2027-01-31T12:00:00+02:00', '2027-01-31T10:00:00.000Z'],
    ['2027-01-31T12:00:00-05:30', '2027-01-31T17:30:00.000Z'],
    ['2026-11-21T12:00:00.001Z', '2026-11-21T12:00:00.001Z'],
    ['2028-02-29T00:00:00Z', '2028-02-29T00:00:00.000Z'],
    ['9999-12-31T23:59:59Z', '9999-12-31T23:59:59.000Z'],
  ])('%s is %s', (text, iso) => {
    expect(futureTime(text).toISOString()).toBe(iso);
  });

  it.each([
    '',
    'tomorrow',
    '2027-01-31', // which moment of the day, and where?
    '2027-01-31T12:00:00', // another moment on another machine
    '2027-01-31 12:00:00Z',
    '31.01.2027',
    '1800000000',
    '2027-13-01T00:00:00Z',
    '2027-00-10T00:00:00Z',
    '2027-01-32T00:00:00Z',
    '2027-01-31T12:60:00Z',
    '2027-01-31T25:00:00Z',
    '2027-01-31T12:00:00+25:00',
    '+12027-01-31T12:00:00Z',
    // Days that there are not. A date that is silently another one is a key that lives longer than was meant.
    '2027-02-29T00:00:00Z',
    '2027-02-30T00:00:00Z',
    '2027-04-31T00:00:00Z',
    '2027-01-31T24:00:00Z',
  ])('is refused when it is no time: %p', (text) => {
    expect(() => futureTime(text)).toThrow(InvalidArgumentError);
    expect(() => futureTime(text)).toThrow('It must be a time like 2027-01-31T12:00:00Z.');
  });

  it.each(['2026-11-21T12:00:00Z', '2026-11-21T11:59:59.999Z', '1999-01-01T00:00:00Z', '2026-11-21T13:00:00+02:00'])(
    'is refused when it is not in the future: %p',
    (text) => {
      expect(() => futureTime(text)).toThrow('It must lie in the future.');
    },
  );
});

describe('--overlap', () => {
  test.each([
    ['0', 0],
    ['0s', 0],
    ['90s', 90_000],
    ['30m', 1_800_000],
    ['24h', 86_400_000],
    ['7d', 604_800_000],
  ])('%s is %i ms', (text, milliseconds) => {
    expect(duration(text)).toBe(milliseconds);
  });

  it.each(['', '24', 'h', '-1h', '+1h', '1.5h', '1 h', '1h30m', '1w', '24H', '1e3s', '9999999d', 'toString'])(
    'is refused when it is no duration: %p',
    (text) => {
      expect(() => duration(text)).toThrow('It must be a duration like 90s, 30m, 24h or 7d, or 0.');
    },
  );
});

describe('--per-minute and --per-day', () => {
  it.each(['1', '60', '2147483647'])('may be %s', (text) => {
    expect(wholeNumber(1)(text)).toBe(Number(text));
  });

  it.each(['0', '-1', '+1', '1.5', '1e3', '0x10', ' 1', '1 ', '', 'many', '2147483648', '9'.repeat(30), 'Infinity'])(
    'may not be %p',
    (text) => {
      expect(() => wholeNumber(1)(text)).toThrow('It must be a whole number from 1 to 2147483647.');
    },
  );
});

describe('--plan', () => {
  test.each([
    ['free', 'free'],
    ['Pro', 'pro'],
    ['BUSINESS', 'business'],
    ['enterprise', 'enterprise'],
  ])('%s is %s', (text, expected) => {
    expect(plan(text)).toBe(expected);
  });

  it.each(['', 'platinum', 'free ', 'custom', 'constructor'])('may not be %p', (text) => {
    expect(() => plan(text)).toThrow('It must be one of free, pro, business, enterprise.');
  });
});

describe('the id of a key', () => {
  it('is a UUID in any case', () => {
    expect(keyId('5F1C0E3A-8d1b-4d57-9a5e-3a4c1c1f0b11')).toBe('5f1c0e3a-8d1b-4d57-9a5e-3a4c1c1f0b11');
  });

  it.each([
    '',
    '1',
    'pst_0000000000',
    '5f1c0e3a-8d1b-4d57-9a5e-3a4c1c1f0b1',
    '5f1c0e3a-8d1b-4d57-9a5e-3a4c1c1f0b111',
    '5f1c0e3a8d1b4d579a5e3a4c1c1f0b11',
    '5f1c0e3g-8d1b-4d57-9a5e-3a4c1c1f0b11',
    "' OR 1=1 --",
  ])('is not %p', (text) => {
    expect(() => keyId(text)).toThrow('a UUID');
  });
});

describe('--name', () => {
  it('loses the blanks around it', () => {
    expect(keyName('  Partner A ')).toBe('Partner A');
    expect(keyName('x'.repeat(200))).toHaveLength(200);
  });

  it.each(['', '   ', '\t\n', 'x'.repeat(201)])('may not be %j', (text) => {
    expect(() => keyName(text)).toThrow('It must have 1 to 200 characters.');
  });
});
