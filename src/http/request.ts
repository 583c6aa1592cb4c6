import { randomUUID } from 'node:crypto';
import type { Caller } from '../plans/plans.js';

export const REQUEST_ID_HEADER = 'X-Request-Id';

declare module 'express-serve-static-core' {
  /** What the service knows about a request, besides what Express does. */
  interface Request {
    /** The request id, in the log and in the response. */
    id: string;
    /** The key that the request was sent with. Set by `ApiKeyGuard`, so under `/v1` only. */
    caller?: Caller;
    /** Why it was rejected with 429, for the log. Set when it was counted. */
    rejection?: 'per_minute' | 'per_day' | 'banned';
  }
}

/** Safe in a log line and in a header, long enough for any common scheme, and no API key, also in capitals. */
const WELL_FORMED_REQUEST_ID = /^(?!.*pst_)[a-z0-9._-]{1,64}$/i;

/** The client's own request id when it is well-formed, a new one otherwise. */
export function requestIdFrom(header: string | string[] | undefined): string {
  return typeof header === 'string' && WELL_FORMED_REQUEST_ID.test(header) ? header : randomUUID();
}
