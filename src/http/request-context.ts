import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Plan, Quotas } from '../plans/plans.js';
import type { Verdict } from '../rate-limit/decision.js';
import type { EndedRequest, TracedRequest } from '../tracing/tracing.js';

export const REQUEST_ID_HEADER = 'X-Request-Id';

export type HeaderPair = readonly [name: string, value: string];

/** What a request is counted against: a key, or the address of a request without a valid one. */
export interface Account {
  /** The id of the key, or the network of the address. */
  readonly id: string;
  readonly plan: Plan | 'anonymous';
  readonly quotas: Quotas;
}

/** The decision about one request. */
export interface Admission {
  /** Undefined when the request cannot be counted: its key cannot be verified, and this process has never seen it. */
  readonly account?: Account;
  /** Why the request has no valid key: none was sent, or an invalid one, or it cannot be verified. */
  readonly error?: Error | undefined;
  readonly verdict: Verdict;
}

const CONTEXT = Symbol('request context');

type RequestWithContext = IncomingMessage & { [CONTEXT]?: RequestContext };

/** What the service knows about a request, from its headers until its response has ended. */
export class RequestContext implements TracedRequest {
  readonly id: string;
  readonly startedAtMs = performance.now();
  /** Express shortens the URL while it walks its routers. */
  readonly target: string;
  /** Set when the request has been admitted or rejected, which is done once. */
  admission: Admission | undefined;
  /**
   * Headers that are deferred until the response is written. They go out together with the response's own, in one call: setting
   * headers one by one costs Node a map, a check and a lower-cased name for each.
   */
  readonly headers: HeaderPair[];
  /** The bytes of a streamed body that the operating system has accepted. */
  bodyBytes = 0;
  ended: EndedRequest | undefined;

  constructor(readonly req: RequestWithContext) {
    this.id = requestIdFrom(req.headers['x-request-id']);
    this.target = req.url ?? '';
    this.headers = [[REQUEST_ID_HEADER, this.id]];
    req[CONTEXT] = this;
  }

  /** @returns undefined for a request that the service did not begin, such as one for metrics */
  static of(req: IncomingMessage): RequestContext | undefined {
    return (req as RequestWithContext)[CONTEXT];
  }
}

/** Safe in a log line and in a header, long enough for any common scheme, and no API key. */
const WELL_FORMED_REQUEST_ID = /^(?!.*pst_)[A-Za-z0-9._-]{1,64}$/;

/** The client's own request id when it is well-formed, a new one otherwise. */
export function requestIdFrom(header: string | string[] | undefined): string {
  return typeof header === 'string' && WELL_FORMED_REQUEST_ID.test(header) ? header : randomUUID();
}
