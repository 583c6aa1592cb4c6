import { InvalidArgumentError } from 'commander';
import { duration, futureTime, keyId, keyName, plan, integer } from '../../src/cli/arguments.js';

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
  ])('parses %s as %s', (text, iso) => {
    expect(futureTime(text).toISOString()).toBe(iso);
  });

  it.each([
    '',
    'tomorrow',
    '2027-01-31', // no time of day
    '2027-01-31T12:00:00', // no offset
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
    // Days that do not exist; `Date` would silently read a later day.
    '2027-02-29T00:00:00Z',
    '2027-02-30T00:00:00Z',
    '2027-04-31T00:00:00Z',
    '2027-01-31T24:00:00Z',
  ])('rejects an invalid time: %p', (text) => {
    expect(() => futureTime(text)).toThrow(InvalidArgumentError);
    expect(() => futureTime(text)).toThrow('It must be an RFC 3339 time with an offset, like 2027-01-31T12:00:00Z.');
  });

  it.each(['2026-11-21T12:00:00Z', '2026-11-21T11:59:59.999Z', '1999-01-01T00:00:00Z', '2026-11-21T13:00:00+02:00'])(
    'rejects a time that is not in the future: %p',
    (text) => {
      expect(() => futureTime(text)).toThrow('It must be in the future.');
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
  ])('parses %s as %i ms', (text, milliseconds) => {
    expect(duration(text)).toBe(milliseconds);
  });

  it.each(['', '24', 'h', '-1h', '+1h', '1.5h', '1 h', '1h30m', '1w', '24H', '1e3s', '9999999d', 'toString'])(
    'rejects an invalid duration: %p',
    (text) => {
      expect(() => duration(text)).toThrow('It must be a duration like 90s, 30m, 24h or 7d, or 0.');
    },
  );
});

describe('--per-minute and --per-day', () => {
  it.each(['1', '60', '2147483647'])('accepts %s', (text) => {
    expect(integer(1)(text)).toBe(Number(text));
  });

  it.each(['0', '-1', '+1', '1.5', '1e3', '0x10', ' 1', '1 ', '', 'many', '2147483648', '9'.repeat(30), 'Infinity'])(
    'rejects %p',
    (text) => {
      expect(() => integer(1)(text)).toThrow('It must be an integer from 1 to 2147483647.');
    },
  );
});

describe('--plan', () => {
  test.each([
    ['free', 'free'],
    ['Pro', 'pro'],
    ['BUSINESS', 'business'],
    ['enterprise', 'enterprise'],
  ])('parses %s as %s', (text, expected) => {
    expect(plan(text)).toBe(expected);
  });

  it.each(['', 'platinum', 'free ', 'custom', 'constructor'])('rejects %p', (text) => {
    expect(() => plan(text)).toThrow('It must be one of free, pro, business, enterprise.');
  });
});

describe('the id of a key', () => {
  it('is a UUID in upper or lower case', () => {
    expect(keyId('5F1C0E3A-8d1b-4d57-9a5e-3a4c1c1f0b11')).toBe('5f1c0e3a-8d1b-4d57-9a5e-3a4c1c1f0b11');
  });

  it('may be its first 8 characters or more', () => {
    expect(keyId('5F1C0E3A')).toBe('5f1c0e3a');
    expect(keyId('5f1c0e3a-8d1b-4')).toBe('5f1c0e3a-8d1b-4');
  });

  it.each([
    '',
    '1',
    'pst_0000000000',
    '5f1c0e3',
    '5f1c0e3a-8d1b-4d57-9a5e-3a4c1c1f0b111',
    '5f1c0e3a8d1b4d579a5e3a4c1c1f0b11',
    '5f1c0e3g-8d1b-4d57-9a5e-3a4c1c1f0b11',
    "' OR 1=1 --",
  ])('rejects %p', (text) => {
    expect(() => keyId(text)).toThrow('The id must be the UUID of a key');
  });
});

describe('--name', () => {
  it('is trimmed and has up to 200 characters', () => {
    expect(keyName('  Partner A ')).toBe('Partner A');
    expect(keyName('x'.repeat(200))).toHaveLength(200);
    expect(keyName('\u{1f436}'.repeat(200))).toHaveLength(400);
  });

  it.each(['', '   ', '\t\n', '\u200b', '\u2060 \ufeff'])('rejects %j, which nobody would see', (text) => {
    expect(() => keyName(text)).toThrow('It must have a visible character.');
  });

  it.each(['x'.repeat(201), '\u{1f436}'.repeat(201)])('rejects more than 200 characters', (text) => {
    expect(() => keyName(text)).toThrow('It must have at most 200 characters.');
  });
});
