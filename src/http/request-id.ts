import { randomUUID } from 'node:crypto';

export const REQUEST_ID_HEADER = 'X-Request-Id';

/** Harmless in a log line and a header, and long enough for any common scheme. */
const WELL_FORMED = /^[A-Za-z0-9._-]{1,64}$/;

/** The caller's own id for a request where it is well-formed, a new one otherwise. */
export function requestIdFrom(header: string | string[] | undefined): string {
  return typeof header === 'string' && WELL_FORMED.test(header) ? header : randomUUID();
}
