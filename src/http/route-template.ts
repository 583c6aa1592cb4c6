const ORDERS = '/v1/store/orders';
const ORDER_PREFIX = `${ORDERS}/`;
const FIXED = new Set([ORDERS, '/health/live', '/health/ready', '/docs']);

/** What stands for every path that no route has: as many as there are attackers' ideas, so never a label. */
export const UNMATCHED = 'unmatched';

/** The route that a path belongs to, for logs and metrics; also for requests that are refused before any routing. */
export function routeTemplateOf(target: string): string {
  const query = target.indexOf('?');
  const path = query === -1 ? target : target.slice(0, query);
  if (FIXED.has(path)) {
    return path;
  }
  if (path.startsWith(ORDER_PREFIX)) {
    return path.includes('/', ORDER_PREFIX.length) ? UNMATCHED : `${ORDER_PREFIX}{orderId}`;
  }
  return path.startsWith('/docs/') ? '/docs' : UNMATCHED;
}
