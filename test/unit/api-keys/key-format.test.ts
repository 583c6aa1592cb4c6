import { generateKey } from '../../../src/api-keys/api-keys.admin.js';
import { hashKey, isWellFormedKey } from '../../../src/api-keys/key-format.js';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

describe('generateKey', () => {
  const many = Array.from({ length: 500 }, () => generateKey());

  it('returns well-formed keys of pst_ and 43 base62 characters, which form one word for a double click', () => {
    expect(many.filter((key) => !/^pst_[0-9A-Za-z]{43}$/.test(key))).toEqual([]);
    expect(many.filter((key) => !isWellFormedKey(key))).toEqual([]);
  });

  it('returns a different key each time, with the whole alphabet at every position', () => {
    expect(new Set(many).size).toBe(many.length);
    // 62 characters at 43 positions in 500 keys: a character is missing everywhere with a probability of (61/62)^21500.
    const secrets = new Set(many.map((key) => key.slice(4)).join(''));
    expect([...secrets].sort().join('')).toBe(Array.from(BASE62).sort().join(''));
  });
});

it('hashKey returns the SHA-256', () => {
  // Computed with Python's hashlib.sha256.
  expect(hashKey('pst_0000000000000000000000000000000000000000000')).toBe(
    '64067572bb7b7e7b68a07902f884cf69954037edf0b9a9426661899973d71107',
  );
});

describe('isWellFormedKey', () => {
  const key = 'pst_0000000000000000000000000000000000000000000';

  test.each([
    ['an empty string', ''],
    ['one character too few', key.slice(0, -1)],
    ['one character too many', `${key}0`],
    ['a character before the prefix', `x${key}`],
    ['another prefix', key.replace('pst_', 'psk_')],
    ['a letter outside ASCII', `${key.slice(0, -1)}é`],
    ['the prefix alone', 'pst_'],
    ['a leading space', ` ${key}`],
    ['a trailing line feed', `${key}\n`],
    ['the prefix in capitals', key.replace('pst_', 'PST_')],
  ])('rejects %s', (_what, text) => {
    expect(isWellFormedKey(text)).toBe(false);
  });
});
