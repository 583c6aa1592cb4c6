import fc from 'fast-check';
import { readBearer } from '../../../src/api-keys/bearer.js';

// Values with surrounding white space are missing here: the HTTP parser removes it (RFC 9110 section 5.5).
// `test/requests/401.test.ts` sends them.

/** All characters of `b64token` (RFC 6750 section 2.1), without the final equals signs. */
const B64TOKEN = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/';

/** The code of the error; undefined for a token. */
function codeOf(value: string): string | undefined {
  const result = readBearer(value);
  return typeof result === 'string' ? undefined : result.code;
}

describe('readBearer', () => {
  test.each<[string, string]>([
    ['Bearer abc', 'abc'],
    // The scheme is case-insensitive (RFC 9110 section 11.1); the token is not.
    ['bearer aBc', 'aBc'],
    ['BEARER abc', 'abc'],
    // 1*SP between scheme and token.
    ['Bearer   abc', 'abc'],
    [`Bearer ${'a'.repeat(8_000)}`, 'a'.repeat(8_000)],
  ])('returns the token of %j', (value, expected) => {
    expect(readBearer(value)).toEqual(expected);
  });

  it('returns invalid_api_key for a token with any other character', () => {
    const others = Array.from({ length: 256 }, (_, code) => String.fromCharCode(code)).filter(
      (each) => !`${B64TOKEN}=`.includes(each),
    );
    expect(others.filter((each) => codeOf(`Bearer a${each}b`) !== 'invalid_api_key')).toEqual([]);
  });

  test.each([
    ['Bearer abc def'], // one token
    ['Bearer =abc'], // equals signs only at the end
    ['Bearer a=b'],
    ['Bearer ='],
    ['Bearer \tabc'],
    ['Bearer abc\u0000'],
    ['Bearer abc\u00a0'],
    ['Bearer \u00a0abc'],
  ])('returns invalid_api_key for %j', (value) => {
    expect(codeOf(value)).toBe('invalid_api_key');
  });

  test.each([[''], ['   '], ['Bearer'], ['Basic dXNlcjpwYXNz'], ['Bearerabc'], ['Bearer-abc def'], ['pst_abc']])(
    'returns missing_api_key for %j',
    (value) => {
      expect(codeOf(value)).toBe('missing_api_key');
    },
  );

  test.each([
    [['Bearer abc', 'Bearer abc']],
    [['Basic dXNlcjpwYXNz', 'Bearer abc']],
    [['', 'Bearer abc']],
    [['Bearer abc', '']],
  ])('returns invalid_api_key for several Authorization headers: %j', (values) => {
    expect(codeOf(values.join(', '))).toBe('invalid_api_key');
  });

  it('returns every valid token unchanged', () => {
    const tokens = fc
      .tuple(fc.string({ unit: fc.constantFrom(...Array.from(B64TOKEN)), minLength: 1 }), fc.nat({ max: 3 }))
      .map(([body, equalsSigns]) => body + '='.repeat(equalsSigns));
    fc.assert(
      fc.property(tokens, (text) => {
        expect(readBearer(`Bearer ${text}`)).toEqual(text);
      }),
    );
  });

  it('returns invalid_api_key for long values without a token', () => {
    for (const value of [
      `Bearer ${'a='.repeat(8_000)}`,
      `Bearer${' '.repeat(16_000)}!`,
      `Bearer ${'='.repeat(16_000)}`,
    ]) {
      expect(codeOf(value)).toBe('invalid_api_key');
    }
  });
});
