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

const SCHEME_AND_AUTHORITY = /^[a-z][a-z0-9+.-]*:\/\/[^/?]*/i;

/**
 * What Express routes in the place of a request target as it was sent: without fragment, and in absolute form without scheme and authority,
 * which name no resource here (RFC 9112 section 3.2.2). Express would read such targets with Node's legacy parser. The percent signs of a
 * path that cannot be decoded are escaped: the router would reject it before any route, so before keys and limits.
 */
export function routableTarget(sent: string): string {
  const [target = ''] = sent.split('#', 1);
  const relative = target.replace(SCHEME_AND_AUTHORITY, '');
  const rooted = relative.startsWith('/') ? relative : `/${relative}`;
  return isDecodable(pathOf(rooted)) ? rooted : rooted.replaceAll('%', '%25');
}

/** The path of a routable target. */
export function pathOf(target: string): string {
  const query = target.indexOf('?');
  return query === -1 ? target : target.slice(0, query);
}
