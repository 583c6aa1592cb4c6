import { pathOf } from '../http/api-path.js';
import { ORDER_ROUTES } from '../orders/orders.paths.js';

const ROUTES: readonly string[] = [...ORDER_ROUTES, '/health/live', '/health/ready', '/docs'];
const FIXED = new Set(ROUTES.filter((route) => !route.includes('{')));
/** Templates whose last segment is a parameter, with the part before it. */
const WITH_PARAMETER = ROUTES.filter((route) => route.endsWith('}')).map((route) => ({
  route,
  prefix: route.slice(0, route.indexOf('{')),
}));

/**
 * The route template that a request target matches, for logs, metrics and spans; also for requests that are rejected
 * before routing.
 * @returns undefined when it matches none: the paths that clients make up have unbounded cardinality
 */
export function routeTemplateOf(target: string): string | undefined {
  const path = pathOf(target);
  if (FIXED.has(path)) {
    return path;
  }
  const match = WITH_PARAMETER.find(({ prefix }) => path.startsWith(prefix));
  if (match !== undefined) {
    return path.includes('/', match.prefix.length) ? undefined : match.route;
  }
  return path.startsWith('/docs/') ? '/docs' : undefined;
}
