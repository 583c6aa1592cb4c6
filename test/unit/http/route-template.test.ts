import { routeTemplateOf } from '../../../src/http/route-template.js';

describe('the route that stands for', () => {
  it.each([
    ['/v1/store/orders', '/v1/store/orders'],
    ['/v1/store/orders?a=/b', '/v1/store/orders'],
    ['/v1/store/orders/1', '/v1/store/orders/{orderId}'],
    ['/v1/store/orders/1?a=/b', '/v1/store/orders/{orderId}'],
    ['/v1/store/orders/x', '/v1/store/orders/{orderId}'],
    ['/v1/store/orders/', '/v1/store/orders/{orderId}'],
    ['/v1/store/orders/1/', 'unmatched'],
    ['/v1/store/orders/1/lines', 'unmatched'],
    ['/v1/store/orders1', 'unmatched'],
    ['/health/live', '/health/live'],
    ['/health/ready?verbose', '/health/ready'],
    ['/health', 'unmatched'],
    ['/docs', '/docs'],
    ['/docs/', '/docs'],
    ['/docs/openapi.json', '/docs'],
    ['/docsy', 'unmatched'],
    ['/a/docs/', 'unmatched'],
    ['?', 'unmatched'],
    ['', 'unmatched'],
  ])('%s is %s', (target, template) => {
    expect(routeTemplateOf(target)).toBe(template);
  });
});
