import { isDecodable } from '../common/is-decodable.js';

/** The path segment that all operations of the interface live under; the version is part of the base address. */
export const API_VERSION = 'v1';

/** Whether a path is under `/v1`, where keys and limits apply. */
export function isApiPath(path: string): boolean {
  return path === `/${API_VERSION}` || path.startsWith(`/${API_VERSION}/`);
}

/** The path of the order operations, as Nest and the document see it. */
export const ORDERS_PATH = `${API_VERSION}/store/orders`;

/** The same as route templates, for metrics, logs and spans. */
export const LIST_ROUTE = `/${ORDERS_PATH}`;
export const ORDER_ROUTE = `${LIST_ROUTE}/{orderId}`;

export const DOCS_PATH = '/docs';

const FIXED_ROUTES = new Set(['/', LIST_ROUTE, '/health/live', '/health/ready', DOCS_PATH]);

/**
 * The route template that a request target matches, for logs, metrics and spans; also for requests that are rejected
 * before routing.
 * @returns undefined when it matches none: the paths that clients make up have unbounded cardinality
 */
export function routeTemplateOf(target: string): string | undefined {
  const path = pathOf(target);
  if (FIXED_ROUTES.has(path)) {
    return path;
  }
  if (path.startsWith(`${LIST_ROUTE}/`)) {
    return path.includes('/', LIST_ROUTE.length + 1) ? undefined : ORDER_ROUTE;
  }
  return path.startsWith(`${DOCS_PATH}/`) ? DOCS_PATH : undefined;
}

/** The path of a request target without its query, also of one in absolute form. */
export function pathOf(target: string): string {
  const path = originForm(target) ?? target;
  const query = path.indexOf('?');
  return query === -1 ? path : path.slice(0, query);
}

/**
 * A request target without its fragment, and in absolute form without scheme and authority, which name no resource here
 * (RFC 9112 section 3.2.2). Express would read such targets with Node's legacy parser, whose results differ between versions of
 * Node, so a path could be under `/v1` for Express and not for the log.
 * @returns undefined when the target is not well-formed
 */
export function originForm(sent: string): string | undefined {
  const fragment = sent.indexOf('#');
  const target = fragment === -1 ? sent : sent.slice(0, fragment);
  if (target.startsWith('/') || target === '*') {
    return target;
  }
  const prefix = SCHEME_AND_AUTHORITY.exec(target)?.[0];
  const rest = prefix === undefined ? undefined : target.slice(prefix.length);
  return rest === undefined || rest.startsWith('/') ? rest : `/${rest}`;
}

const SCHEME_AND_AUTHORITY = /^[A-Za-z][A-Za-z0-9+.-]*:\/\/(?:[^/?#[\]]|\[[0-9A-Fa-f:.]+\])*(?=[/?#]|$)/;

/** What Express routes in the place of a target as it was sent; `*`, which no route matches, for one that is not well-formed. */
export function routableTarget(sent: string): string {
  return withLiteralPercents(originForm(sent) ?? '*');
}

/**
 * Escapes the percent signs of a path that cannot be decoded. Otherwise the router would reject such a target before any
 * route; no route has a parameter whose value needs them decoded.
 */
export function withLiteralPercents(target: string): string {
  return isDecodable(pathOf(target)) ? target : target.replaceAll('%', '%25');
}
