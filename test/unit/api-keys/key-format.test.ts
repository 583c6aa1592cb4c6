import fc from 'fast-check';
import { generateKey, hashKey, isWellFormedKey } from '../../../src/api-keys/key-format.js';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

const keys = fc.constant(undefined).map(() => generateKey());

describe('generateKey', () => {
  const many = Array.from({ length: 500 }, () => generateKey());

  it('returns well-formed keys of pst_ and 49 base62 characters, which form one word for a double click', () => {
    expect(many.filter((key) => !/^pst_[0-9A-Za-z]{49}$/.test(key))).toEqual([]);
    expect(many.filter((key) => !isWellFormedKey(key))).toEqual([]);
  });

  it('returns a different key each time, with the whole alphabet at every position', () => {
    expect(new Set(many).size).toBe(many.length);
    // 62 characters at 43 positions in 500 keys: a character is missing everywhere with a probability of (61/62)^21500.
    const secrets = new Set(many.map((key) => key.slice(4, 47)).join(''));
    expect([...secrets].sort().join('')).toBe(Array.from(BASE62).sort().join(''));
  });
});

describe('isWellFormedKey', () => {
  test.each([
    // Computed with Python's zlib.crc32 and hashlib.sha256.
    [
      'pst_00000000000000000000000000000000000000000000O7J8C',
      '653053d6e41d19bfe9eabe96c8fd04b5c33352aceb940909dec090aac007770f',
    ],
    [
      'pst_zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz2AHwtV',
      'c4ed22059be4f6e9631ae489ea0f5c9e8988b908be90a53f21ba85acbe4f390d',
    ],
    [
      'pst_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg3f1V6h',
      '62cbdc1447c9e24f395df21175c2a81aa0173bec4aadb141bf6a2fa8a6a95b69',
    ],
  ])('accepts the reference key %s with the digest %s', (key, digest) => {
    expect(isWellFormedKey(key)).toBe(true);
    expect(hashKey(key)).toBe(digest);
  });

  it('rejects a key with one changed character', () => {
    const replacement = fc.oneof(fc.constantFrom(...Array.from(BASE62)), fc.string({ minLength: 1, maxLength: 1 }));
    fc.assert(
      fc.property(keys, fc.nat({ max: 52 }), replacement, (key, index, character) => {
        fc.pre(key[index] !== character);
        expect(isWellFormedKey(key.slice(0, index) + character + key.slice(index + 1))).toBe(false);
      }),
      { numRuns: 2_000 },
    );
  });

  it('rejects a key with two swapped neighbouring characters', () => {
    fc.assert(
      fc.property(keys, fc.nat({ max: 51 }), (key, index) => {
        const [one, other] = [key.charAt(index), key.charAt(index + 1)];
        fc.pre(one !== other);
        expect(isWellFormedKey(key.slice(0, index) + other + one + key.slice(index + 2))).toBe(false);
      }),
    );
  });

  const key = 'pst_00000000000000000000000000000000000000000000O7J8C';
  test.each([
    ['an empty string', ''],
    // Their checksums are correct, also computed with Python.
    ['one more character', 'pst_0000000000000000000000000000000000000000000005Om5g'],
    ['a character before the prefix', 'xpst_00000000000000000000000000000000000000000004MK9fC'],
    ['another prefix', 'psk_00000000000000000000000000000000000000000004K3v2N'],
    ['a letter outside ASCII', 'pst_000000000000000000000000000000000000000000é3GgfTq'],
    ['the prefix alone', 'pst_'],
    ['one character too few', key.slice(0, -1)],
    ['one character too many', `${key}0`],
    ['a leading space', ` ${key}`],
    ['a trailing line feed', `${key}\n`],
    ['the prefix in capitals', key.replace('pst_', 'PST_')],
    ['a checksum in another case', key.toLowerCase()],
  ])('rejects %s', (_what, text) => {
    expect(isWellFormedKey(text)).toBe(false);
  });
});
