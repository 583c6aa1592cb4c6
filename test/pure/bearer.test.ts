import fc from 'fast-check';
import { readBearer } from '../../src/api-keys/bearer.js';

// Values with surrounding white space are missing here: the HTTP parser removes it (RFC 9110 section 5.5).

/** All characters of `b64token` (RFC 6750 section 2.1), without the final equals signs. */
const B64TOKEN = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/';

/** The code of the error; undefined for a token. */
function codeOf(value: string): string | undefined {
  const result = readBearer(value);
  return typeof result === 'string' ? undefined : result.code;
}

describe('readBearer', () => {
  // The scheme is case-insensitive (RFC 9110 section 11.1), with 1*SP behind it; the token is not.
  it.each(['Bearer ', 'bearer ', 'BEARER   '])('returns every valid token unchanged behind "%s"', (scheme) => {
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
    'Bearer abc def',
    'Bearer a=b',
    'Bearer =',
    'Bearer \tabc',
    // Several headers, which Node joins so.
    'Bearer abc, Bearer abc',
    'Basic dXNlcjpwYXNz, Bearer abc',
    'Bearer abc, ',
  ])('returns invalid_api_key for %j', (value) => {
    expect(codeOf(value)).toBe('invalid_api_key');
  });

  it.each(['', 'Bearer', 'Basic dXNlcjpwYXNz', 'Bearerabc', 'Bearer-abc def', 'pst_abc'])(
    'returns missing_api_key for %j',
    (value) => {
      expect(codeOf(value)).toBe('missing_api_key');
    },
  );
});
