import { createRequire } from 'node:module';
import fc from 'fast-check';
import { originForm, pathOf, routeTemplateOf, withLiteralPercents } from '../../../src/http/paths.js';

/** How Express reads a target. */
const parseUrl = createRequire(require.resolve('express'))('parseurl') as (req: { url: string }) => {
  pathname: string;
};

const isApiPath = (target: string): boolean => `${pathOf(target)}/`.startsWith('/v1/');

describe('the path of a target', () => {
  it.each([
    '/v1/store/orders?a=/v2',
    'http://localhost/v1',
    'http://localhost/v1/store/orders',
    'https://user:password@api.example.com:8443/v1?a',
    'HTTP://LOCALHOST/v1/',
    'http://[::1]/v1',
  ])('is under the version segment for %s', (target) => {
    expect(isApiPath(target)).toBe(true);
  });

  it.each([
    '',
    '/v10',
    '/v1;a=b',
    '/V1',
    '/%76%31',
    'v1/store/orders',
    'localhost:80',
    'http://localhost/V1',
    'http://v1/store',
    'http://[/v1',
  ])('is not under the version segment for %p', (target) => {
    expect(isApiPath(target)).toBe(false);
  });
});

it('is what Express sees: no route under /v1 is reached without keys and limits, and no other with them', () => {
  const unit = fc.constantFrom('/v1', '/', '\\', '#', '?', '%', '%2f', ':', '//', '@', ';', 'a', 'http://', '[', ']');
  fc.assert(
    fc.property(fc.string({ unit }), (sent) => {
      const target = originForm(sent) ?? '';
      fc.pre(target.startsWith('/'));
      const { pathname } = parseUrl({ url: withLiteralPercents(target) });
      expect(isApiPath(sent)).toBe(/^\/v1(?:\/|$)/.test(pathname));
    }),
    { numRuns: 2_000 },
  );
});

describe('withLiteralPercents', () => {
  test.each([
    ['/v1/store/orders/%', '/v1/store/orders/%25'],
    ['/%zz', '/%25zz'],
    ['/%1', '/%251'],
    ['/100%/a', '/100%25/a'],
    ['/%%', '/%25%25'],
    // Bytes that are not UTF-8 encode nothing.
    ['/%ff', '/%25ff'],
    ['/%C3%28', '/%25C3%2528'],
  ])('escapes the literal percent signs of %s', (target, literal) => {
    expect(decodeURIComponent(withLiteralPercents(target))).toBe(decodeURIComponent(literal));
  });

  it.each(['/v1/store/orders/1', '/a%20b', '/%F0%9F%90%B6', '/%25zz', '/%31?discount=100%', '', '*'])(
    'returns %p unchanged',
    (target) => {
      expect(withLiteralPercents(target)).toBe(target);
    },
  );

  it('returns a target whose path can be decoded, whatever the input', () => {
    const targets = fc.string({ unit: fc.constantFrom('%', '2', '5', 'f', 'z', '/', '?', 'c3') });
    fc.assert(
      fc.property(targets, (target) => {
        expect(() => decodeURIComponent(pathOf(withLiteralPercents(target)))).not.toThrow();
      }),
    );
  });
});

describe('routeTemplateOf', () => {
  it.each([
    ['/v1/store/orders', '/v1/store/orders'],
    ['/v1/store/orders?a=/b', '/v1/store/orders'],
    ['http://api.example.com/v1/store/orders?a', '/v1/store/orders'],
    ['/v1/store/orders/1', '/v1/store/orders/{orderId}'],
    ['/v1/store/orders/1?a=/b', '/v1/store/orders/{orderId}'],
    ['/v1/store/orders/x', '/v1/store/orders/{orderId}'],
    ['/v1/store/orders/', '/v1/store/orders/{orderId}'],
    ['/v1/store/orders/1/', undefined],
    ['/v1/store/orders/1/lines', undefined],
    ['/v1/store/orders1', undefined],
    ['/', '/'],
    ['/health/live', '/health/live'],
    ['/health/ready?verbose', '/health/ready'],
    ['/health', undefined],
    ['/docs', '/docs'],
    ['/docs/', '/docs'],
    ['/docs/openapi.json', '/docs'],
    ['/docsy', undefined],
    ['/a/docs/', undefined],
    ['?', undefined],
    ['', undefined],
  ])('matches "%s" to %s', (target, template) => {
    expect(routeTemplateOf(target)).toBe(template);
  });
});
