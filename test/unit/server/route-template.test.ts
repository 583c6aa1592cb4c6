import { routeTemplateOf } from '../../../src/server/route-template.js';

describe('routeTemplateOf', () => {
  it.each([
    ['/v1/store/orders', '/v1/store/orders'],
    ['/v1/store/orders?a=/b', '/v1/store/orders'],
    ['/v1/store/orders/1', '/v1/store/orders/{orderId}'],
    ['/v1/store/orders/1?a=/b', '/v1/store/orders/{orderId}'],
    ['/v1/store/orders/x', '/v1/store/orders/{orderId}'],
    ['/v1/store/orders/', '/v1/store/orders/{orderId}'],
    ['/v1/store/orders/1/', undefined],
    ['/v1/store/orders/1/lines', undefined],
    ['/v1/store/orders1', undefined],
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
