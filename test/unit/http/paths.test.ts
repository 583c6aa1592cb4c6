import { createRequire } from 'node:module';
import fc from 'fast-check';
import { isApiPath, pathOf, routableTarget } from '../../../src/http/paths.js';

/** How Express reads a target. */
const parseUrl = createRequire(require.resolve('express'))('parseurl') as (req: { url: string }) => {
  pathname: string;
};

describe('what Express routes in the place of a target', () => {
  test.each([
    ['/v1/store/orders?a=/v2', '/v1/store/orders?a=/v2'],
    ['http://localhost', '/'],
    ['http://localhost?a=/v1', '/?a=/v1'],
    ['HTTPS://user:password@api.example.com:8443/v1?a', '/v1?a'],
    ['http://[::1]/v1#part', '/v1'],
    ['/v1#part', '/v1'],
    ['*', '/*'],
    ['', '/'],
    ['/v1/store/orders/%', '/v1/store/orders/%25'],
    // Bytes that are not UTF-8 encode nothing.
    ['/%ff%41', '/%25ff%2541'],
    ['/a%20b?discount=100%', '/a%20b?discount=100%'],
  ])('%j: %j', (sent, target) => {
    expect(routableTarget(sent)).toBe(target);
  });

  it('can be decoded, and has the same path for Express, whatever the input', () => {
    const unit = fc.constantFrom(
      '/v1',
      '/',
      '\\',
      '#',
      '?',
      '%',
      '%2f',
      '%c3',
      ':',
      '//',
      '@',
      ';',
      'a',
      'http://',
      '[',
    );
    fc.assert(
      fc.property(fc.string({ unit }), (sent) => {
        const target = routableTarget(sent);
        const path = pathOf(target);
        expect(() => decodeURIComponent(path)).not.toThrow();
        expect(parseUrl({ url: target }).pathname).toBe(path);
        expect(isApiPath(path)).toBe(/^\/v1(?:\/|$)/.test(path));
      }),
      { numRuns: 2_000 },
    );
  });
});
