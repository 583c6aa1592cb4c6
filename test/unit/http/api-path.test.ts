import fc from 'fast-check';
import { isApiPath, withLiteralPercents } from '../../../src/http/api-path.js';

describe('a target under the version segment', () => {
  it.each([
    '/v1',
    '/v1/',
    '/v1?',
    '/v1?a=b',
    '/v1/store/orders',
    '/v1/store/orders?a=/v2',
    '/v1//',
    '/v1/%zz',
    'http://localhost/v1',
    'http://localhost/v1/store/orders',
    'https://user:password@api.example.com:8443/v1?a',
    'HTTP://LOCALHOST/v1/',
  ])('is %s', (target) => {
    expect(isApiPath(target)).toBe(true);
  });

  it.each([
    '',
    '*',
    '/',
    '/v',
    '/v2',
    '/v10',
    '/v1.0/store/orders',
    '/v1;a=b',
    '/V1',
    '//v1',
    '/api/v1',
    '/%76%31',
    '/v1%2fstore',
    'v1/store/orders',
    'localhost:80',
    'http://localhost',
    'http://localhost/V1',
    'http://v1/store',
    'http://',
  ])('is not %p', (target) => {
    expect(isApiPath(target)).toBe(false);
  });
});

describe('percent signs that encode nothing', () => {
  test.each([
    ['/v1/store/orders/%', '/v1/store/orders/%25'],
    ['/%zz', '/%25zz'],
    ['/%1', '/%251'],
    ['/100%/a', '/100%25/a'],
    ['/%%', '/%25%25'],
    // Bytes that are no UTF-8 encode nothing either.
    ['/%ff', '/%25ff'],
    ['/%C3%28', '/%25C3%2528'],
    // Only they are read as themselves: what encodes something goes on to do so, as in the WHATWG URL standard.
    ['/%31%', '/1%25'],
    ['/%31?discount=100%', '/1?discount=100%25'],
  ])('are read as themselves in %s', (target, literal) => {
    expect(decodeURIComponent(withLiteralPercents(target))).toBe(decodeURIComponent(literal));
  });

  it.each(['/v1/store/orders/1', '/a%20b', '/%F0%9F%90%B6', '/%25zz', '', '*'])(
    'are not in %p, which stays',
    (target) => {
      expect(withLiteralPercents(target)).toBe(target);
    },
  );

  it('leave nothing behind that cannot be decoded, whatever the target', () => {
    const targets = fc.string({ unit: fc.constantFrom('%', '2', '5', 'f', 'z', '/', '?', 'c3') });
    fc.assert(
      fc.property(targets, (target) => {
        expect(() => decodeURIComponent(withLiteralPercents(target))).not.toThrow();
      }),
    );
  });
});
