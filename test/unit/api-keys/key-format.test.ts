import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { DISPLAY_PREFIX_LENGTH, generateKey, hashKey, isWellFormedKey } from '../../../src/api-keys/key-format.js';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** CRC-32 as ISO/IEC 3309 defines it, bit by bit, independent of the service's implementation. */
function crc32BitByBit(text: string): bigint {
  let crc = 0xffffffffn;
  for (const byte of Buffer.from(text, 'latin1')) {
    crc ^= BigInt(byte);
    for (let bit = 0; bit < 8; bit++) {
      crc = (crc & 1n) === 1n ? (crc >> 1n) ^ 0xedb88320n : crc >> 1n;
    }
  }
  return crc ^ 0xffffffffn;
}

function checksum(body: string): string {
  let rest = crc32BitByBit(body);
  let digits = '';
  while (digits.length < 6) {
    digits = BASE62.charAt(Number(rest % 62n)) + digits;
    rest /= 62n;
  }
  return digits;
}

const keys = fc.constant(undefined).map(() => generateKey());

describe('generateKey', () => {
  const many = Array.from({ length: 500 }, () => generateKey());

  it('returns pst_ and 49 base62 characters, which form one word for a double click', () => {
    expect(many.filter((key) => !/^pst_[0-9A-Za-z]{49}$/.test(key))).toEqual([]);
    expect(many.filter((key) => !/^\w+$/.test(key))).toEqual([]);
  });

  it('ends in the CRC-32 of the preceding characters, as six base62 digits', () => {
    expect(many.filter((key) => key.slice(-6) !== checksum(key.slice(0, -6)))).toEqual([]);
  });

  it('returns a different key each time, with the whole alphabet at every position', () => {
    expect(new Set(many).size).toBe(many.length);
    // 62 characters at 43 positions in 500 keys: a character is missing everywhere with a probability of (61/62)^21500.
    const secrets = new Set(many.map((key) => key.slice(4, 47)).join(''));
    expect([...secrets].sort().join('')).toBe(Array.from(BASE62).sort().join(''));
  });

  it('shows only the first ten characters of a key in lists', () => {
    expect(DISPLAY_PREFIX_LENGTH).toBe(10);
  });
});

describe('isWellFormedKey', () => {
  it('uses a CRC-32 with the published check value', () => {
    // The check value of CRC-32/ISO-HDLC.
    expect(crc32BitByBit('123456789')).toBe(0xcbf43926n);
  });

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
    ['one more character and a correct checksum', `pst_${'0'.repeat(44)}`.concat(checksum(`pst_${'0'.repeat(44)}`))],
    [
      'a character before the prefix and a correct checksum',
      `xpst_${'0'.repeat(43)}`.concat(checksum(`xpst_${'0'.repeat(43)}`)),
    ],
    ['the prefix alone', 'pst_'],
    ['one character too few', key.slice(0, -1)],
    ['one character too many', `${key}0`],
    ['a leading space', ` ${key}`],
    ['a trailing line feed', `${key}\n`],
    ['the prefix in capitals', key.replace('pst_', 'PST_')],
    [
      'another prefix with a correct checksum',
      'psk_0000000000000000000000000000000000000000000'.concat(
        checksum('psk_0000000000000000000000000000000000000000000'),
      ),
    ],
    [
      'a letter outside ASCII with a correct checksum',
      'pst_000000000000000000000000000000000000000000é'.concat(
        checksum('pst_000000000000000000000000000000000000000000é'),
      ),
    ],
    ['a checksum in another case', key.toLowerCase()],
  ])('rejects %s', (_what, text) => {
    expect(isWellFormedKey(text)).toBe(false);
  });
});

describe('hashKey', () => {
  it('returns the SHA-256 as 64 lower-case hexadecimal digits', () => {
    fc.assert(
      fc.property(keys, (key) => {
        expect(hashKey(key)).toMatch(/^[0-9a-f]{64}$/);
        expect(hashKey(key)).toBe(createHash('sha256').update(key, 'ascii').digest('hex'));
      }),
    );
  });
});
