import { createRequire } from 'node:module';
import fc from 'fast-check';
import { isApiPath, pathOf, routableTarget } from '../../src/http/paths.js';
import { requestIdFrom } from '../../src/http/request.js';

/** How Express reads a target. */
const parseUrl = createRequire(require.resolve('express'))('parseurl') as (req: { url: string }) => {
  pathname: string;
};

describe('what Express routes in the place of a target', () => {
  it.each([
    ['http://localhost?a=/v1', '/?a=/v1'],
    ['HTTPS://user:password@api.example.com:8443/v1?a', '/v1?a'],
    ['http://[::1]/v1#part', '/v1'],
    ['*', '/*'],
    // Bytes that are not UTF-8 encode nothing.
    ['/%ff%41', '/%25ff%2541'],
    ['/a%20b?discount=100%', '/a%20b?discount=100%'],
  ])('%j: %j', (sent, target) => {
    expect(routableTarget(sent)).toBe(target);
  });

  it('can be decoded, and has the same path for Express, whatever the input', () => {
    const parts = ['/v1', '/', '\\', '#', '?', '%', '%2f', '%c3', ':', '//', '@', ';', 'a', 'http://', '['];
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...parts) }), (sent) => {
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

describe('the request id', () => {
  const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

  it.each(['A-Z.a_z-09', 'x'.repeat(64)])('is that of the client when it is well-formed: %s', (id) => {
    expect(requestIdFrom(id)).toBe(id);
  });

  it.each([undefined, 'x'.repeat(65), 'a b', 'a\n', 'aPST_', ['a', 'a']])('is a new one for %j', (id) => {
    expect(requestIdFrom(id)).toMatch(UUID);
  });
});
