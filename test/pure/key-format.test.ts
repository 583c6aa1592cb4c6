import { generateKey } from '../../src/api-keys/api-keys.admin.js';
import { hashKey, isWellFormedKey } from '../../src/api-keys/key-format.js';

it('generateKey returns different keys of pst_ and 43 characters, with the whole alphabet', () => {
  const keys = Array.from({ length: 500 }, generateKey);
  expect(keys.filter((key) => !/^pst_[0-9A-Za-z]{43}$/.test(key) || !isWellFormedKey(key))).toEqual([]);
  expect(new Set(keys).size).toBe(keys.length);
  // 62 characters at 43 positions in 500 keys: one is missing everywhere with a probability of (61/62)^21500.
  expect(new Set(keys.map((key) => key.slice(4)).join('')).size).toBe(62);
});

it('hashKey returns the SHA-256', () => {
  // Computed with Python's hashlib.sha256.
  expect(hashKey('pst_0000000000000000000000000000000000000000000')).toBe(
    '64067572bb7b7e7b68a07902f884cf69954037edf0b9a9426661899973d71107',
  );
});

const KEY = `pst_${'0'.repeat(43)}`;

it.each([
  ['one character too few', KEY.slice(0, -1)],
  ['one character too many', `${KEY}0`],
  ['another prefix', KEY.replace('pst_', 'psk_')],
  ['the prefix in capitals', KEY.replace('pst_', 'PST_')],
  ['a letter outside ASCII', `${KEY.slice(0, -1)}é`],
  ['a trailing line feed', `${KEY}\n`],
])('isWellFormedKey rejects %s', (_what, text) => {
  expect(isWellFormedKey(text)).toBe(false);
});
