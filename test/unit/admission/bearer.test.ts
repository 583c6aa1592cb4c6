import fc from 'fast-check';
import { type Bearer, readBearer } from '../../../src/admission/bearer.js';

const MISSING: Bearer = { kind: 'missing' };
const MALFORMED: Bearer = { kind: 'malformed' };
// Blanks around a value are not in these tables: they are not part of it (RFC 9110 section 5.5), and the HTTP parser
// takes them off; `test/keys/authentication.test.ts` sends them.
const token = (text: string): Bearer => ({ kind: 'token', token: text });

/** All characters of `b64token` (RFC 6750 section 2.1) but the closing equals signs. */
const B64TOKEN = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/';

describe('the Authorization header', () => {
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
  ])('%j carries a token', (value, expected) => {
    expect(readBearer(['Authorization', value])).toEqual(expected);
  });

  test.each([
    ['Bearer abc def'], // one token
    ['Bearer abc, Bearer def'],
    ['Bearer abc,def'],
    ['Bearer "abc"'],
    ['Bearer =abc'], // the equals signs close the token
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
    // Blanks of other alphabets are characters, and not of the token's.
    ['Bearer abc\u00a0'],
    ['Bearer \u00a0abc'],
  ])('%j is malformed', (value) => {
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
  ])('%j carries no credentials of ours', (value) => {
    expect(readBearer(['Authorization', value])).toEqual(MISSING);
  });

  it('is found whatever the case of its name and wherever it stands', () => {
    for (const name of ['authorization', 'Authorization', 'AUTHORIZATION', 'aUtHoRiZaTiOn']) {
      expect(readBearer(['Host', 'localhost', name, 'Bearer abc', 'Accept', '*/*'])).toEqual(token('abc'));
    }
  });

  it('is missing when only headers of similar names or values are there', () => {
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
  ])('is malformed when it comes more than once: %j', (values) => {
    expect(readBearer(values.flatMap((value) => ['Authorization', value]))).toEqual(MALFORMED);
    const mixed = values.flatMap((value, index) => [index === 0 ? 'authorization' : 'AUTHORIZATION', value]);
    expect(readBearer(mixed)).toEqual(MALFORMED);
  });

  it('gives back every token of the alphabet as it was sent', () => {
    const tokens = fc
      .tuple(fc.string({ unit: fc.constantFrom(...Array.from(B64TOKEN)), minLength: 1 }), fc.nat({ max: 3 }))
      .map(([body, equalsSigns]) => body + '='.repeat(equalsSigns));
    fc.assert(
      fc.property(tokens, (text) => {
        expect(readBearer(['authorization', `Bearer ${text}`])).toEqual(token(text));
      }),
    );
  });

  it('is read in no time however long and odd it is', () => {
    const started = performance.now();
    for (const value of [
      `Bearer ${'a='.repeat(8_000)}`,
      `Bearer${' '.repeat(16_000)}!`,
      `Bearer ${'='.repeat(16_000)}`,
    ]) {
      expect(readBearer(['authorization', value])).toEqual(MALFORMED);
    }
    expect(performance.now() - started).toBeLessThan(500);
  });
});
