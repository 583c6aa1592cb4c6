import fc from 'fast-check';
import { type Bearer, readBearer } from '../../../src/admission/bearer.js';

const MISSING: Bearer = { kind: 'missing' };
const MALFORMED: Bearer = { kind: 'malformed' };
// Values with surrounding white space are missing here: the HTTP parser removes it (RFC 9110 section 5.5).
// `test/api-keys/authentication.test.ts` sends them.
const token = (text: string): Bearer => ({ kind: 'token', token: text });

/** All characters of `b64token` (RFC 6750 section 2.1), without the final equals signs. */
const B64TOKEN = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/';

describe('readBearer', () => {
  test.each<[string, Bearer]>([
    ['Bearer abc', token('abc')],
    // The scheme is case-insensitive (RFC 9110 section 11.1); the token is not.
    ['bearer aBc', token('aBc')],
    ['BEARER abc', token('abc')],
    ['bEaReR abc', token('abc')],
    // 1*SP between scheme and token.
    ['Bearer   abc', token('abc')],
    [`Bearer ${B64TOKEN}`, token(B64TOKEN)],
    ['Bearer abc=', token('abc=')],
    ['Bearer abc==', token('abc==')],
    [`Bearer ${'a'.repeat(8_000)}`, token('a'.repeat(8_000))],
  ])('returns the token of %j', (value, expected) => {
    expect(readBearer(['Authorization', value])).toEqual(expected);
  });

  test.each([
    ['Bearer abc def'], // one token
    ['Bearer abc, Bearer def'],
    ['Bearer abc,def'],
    ['Bearer "abc"'],
    ['Bearer =abc'], // equals signs only at the end
    ['Bearer a=b'],
    ['Bearer ='],
    ['Bearer abc!'],
    ['Bearer abc%20'],
    ['Bearer key=abc'],
    ['Bearer Bearer abc'],
    ['Bearer \u00e4bc'],
    ['Bearer abc\tdef'],
    ['Bearer \tabc'],
    ['Bearer abc\u0000'],
    // A no-break space is a character, and not one of `b64token`.
    ['Bearer abc\u00a0'],
    ['Bearer \u00a0abc'],
  ])('returns malformed for %j', (value) => {
    expect(readBearer(['Authorization', value])).toEqual(MALFORMED);
  });

  test.each([
    [''],
    ['   '],
    ['Bearer'],
    ['bearer'],
    ['Basic dXNlcjpwYXNz'],
    ['Basic Bearer abc'],
    ['Digest username="a"'],
    ['Bearerabc'],
    ['Bearer-abc def'],
    ['Token abc'],
    ['pst_abc'],
  ])('returns missing for %j', (value) => {
    expect(readBearer(['Authorization', value])).toEqual(MISSING);
  });

  it('finds the header in any case and at any position', () => {
    for (const name of ['authorization', 'Authorization', 'AUTHORIZATION', 'aUtHoRiZaTiOn']) {
      expect(readBearer(['Host', 'localhost', name, 'Bearer abc', 'Accept', '*/*'])).toEqual(token('abc'));
    }
  });

  it('returns missing when only headers with similar names or values are present', () => {
    expect(readBearer([])).toEqual(MISSING);
    expect(
      readBearer(['Proxy-Authorization', 'Bearer abc', 'X-Authorization', 'Bearer abc', 'X-A', 'authorization']),
    ).toEqual(MISSING);
    expect(readBearer(['X-Authorizing', 'Bearer abc'])).toEqual(MISSING);
    expect(readBearer(['authorizatioN2', 'Bearer abc', 'bauthorization', 'Bearer abc'])).toEqual(MISSING);
  });

  test.each([
    [['Bearer abc', 'Bearer abc']],
    [['Bearer abc', 'Basic dXNlcjpwYXNz']],
    [['Basic dXNlcjpwYXNz', 'Bearer abc']],
    [['', 'Bearer abc']],
    [['Bearer abc', '']],
    [['Bearer', 'Bearer']],
    [['Bearer abc', 'Bearer def', 'Bearer abc']],
  ])('returns malformed for several Authorization headers: %j', (values) => {
    expect(readBearer(values.flatMap((value) => ['Authorization', value]))).toEqual(MALFORMED);
    const mixed = values.flatMap((value, index) => [index === 0 ? 'authorization' : 'AUTHORIZATION', value]);
    expect(readBearer(mixed)).toEqual(MALFORMED);
  });

  it('returns every valid token unchanged', () => {
    const tokens = fc
      .tuple(fc.string({ unit: fc.constantFrom(...Array.from(B64TOKEN)), minLength: 1 }), fc.nat({ max: 3 }))
      .map(([body, equalsSigns]) => body + '='.repeat(equalsSigns));
    fc.assert(
      fc.property(tokens, (text) => {
        expect(readBearer(['authorization', `Bearer ${text}`])).toEqual(token(text));
      }),
    );
  });

  it('returns malformed for long values without a token', () => {
    for (const value of [
      `Bearer ${'a='.repeat(8_000)}`,
      `Bearer${' '.repeat(16_000)}!`,
      `Bearer ${'='.repeat(16_000)}`,
    ]) {
      expect(readBearer(['authorization', value])).toEqual(MALFORMED);
    }
  });
});
