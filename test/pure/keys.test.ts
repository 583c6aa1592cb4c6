import fc from 'fast-check';
import { generateKey } from '../../src/api-keys/api-keys.admin.js';
import { hashKey, isWellFormedKey, readBearer } from '../../src/api-keys/key.js';

describe('readBearer', () => {
  // Values with surrounding white space are missing here: the HTTP parser removes it (RFC 9110 section 5.5).

  /** All characters of `b64token` (RFC 6750 section 2.1), without the final equals signs. */
  const B64TOKEN = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/';

  /** The code of the error; undefined for a token. */
  function codeOf(value: string): string | undefined {
    const result = readBearer(value);
    return typeof result === 'string' ? undefined : result.code;
  }

  // The scheme is case-insensitive (RFC 9110 section 11.1), with 1*SP behind it; the token is not.
  it.each(['Bearer ', 'BEARER   '])('returns every valid token unchanged behind "%s"', (scheme) => {
    const tokens = fc
      .tuple(fc.string({ unit: fc.constantFrom(...Array.from(B64TOKEN)), minLength: 1 }), fc.nat({ max: 3 }))
      .map(([body, equalsSigns]) => body + '='.repeat(equalsSigns));
    fc.assert(
      fc.property(tokens, (token) => {
        expect(readBearer(scheme + token)).toBe(token);
      }),
    );
  });

  it('returns invalid_api_key for a token with any other character', () => {
    const others = Array.from({ length: 256 }, (_, code) => String.fromCharCode(code)).filter(
      (each) => !`${B64TOKEN}=`.includes(each),
    );
    expect(others.filter((each) => codeOf(`Bearer a${each}b`) !== 'invalid_api_key')).toEqual([]);
  });

  it.each([
    ['Bearer a=b', 'invalid_api_key'],
    // Several headers, which Node joins so.
    ['Bearer abc, Bearer abc', 'invalid_api_key'],
    ['Basic dXNlcjpwYXNz, Bearer abc', 'invalid_api_key'],
    ['', 'missing_api_key'],
    ['Bearer', 'missing_api_key'],
    ['Basic dXNlcjpwYXNz', 'missing_api_key'],
    ['Bearerabc', 'missing_api_key'],
  ])('for %j returns %s', (value, code) => {
    expect(codeOf(value)).toBe(code);
  });
});

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
