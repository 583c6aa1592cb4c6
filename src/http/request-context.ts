import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { VerifiedKey } from '../api-keys/verified-key.js';
import type { Plan, Quotas } from '../plans/plans.js';
import type { Subject } from '../rate-limit/subject.js';
import type { Verdict } from '../rate-limit/verdict.js';
import type { RequestSpan } from '../tracing/tracing.js';

export type HeaderPair = readonly [name: string, value: string];

/** The caller of a request. */
export type Caller = KeyCaller | AnonymousCaller | UnverifiedCaller;

/** What a request is counted against. */
export interface Account {
  readonly subject: Subject;
  readonly quotas: Quotas;
  readonly plan: Plan | 'anonymous';
  /** The id of the key, or that of all requests without one. */
  readonly usageId: string;
}

/** Has a valid key and is counted against it. */
export interface KeyCaller {
  readonly kind: 'key';
  readonly key: VerifiedKey;
  readonly account: Account;
}

/** Has no valid key and is counted against the address. */
export interface AnonymousCaller {
  readonly kind: 'anonymous';
  /** Why the request has no key: none was sent, or an invalid one. */
  readonly credentials: 'missing' | 'invalid';
  readonly account: Account;
}

/**
 * An error prevented the decision: the request is rejected with it. It is counted against the key that the token had before;
 * with a token that this process has never seen it is not counted.
 */
export interface UnverifiedCaller {
  readonly kind: 'unverified';
  readonly failure: Error;
  readonly account?: Account | undefined;
}

/** The decision about one request. */
export interface Admission {
  readonly caller: Caller;
  readonly verdict: Verdict;
  /** The rate-limit headers of the response. */
  readonly headers: readonly HeaderPair[];
}

const CONTEXT = Symbol('request context');

type RequestWithContext = IncomingMessage & { [CONTEXT]?: RequestContext };

/** What the service knows about a request, from its headers until its response has ended. */
export class RequestContext {
  readonly id: string;
  readonly startedAtMs = performance.now();
  /** Express shortens the URL while it walks its routers. */
  readonly target: string;
  /** Set when the request has been admitted or rejected, which is done once. */
  admission: Admission | undefined;
  /** Headers for the response: name, value, name, value, … */
  readonly headers: string[] = [];
  /** The bytes of a streamed body that the operating system has accepted. */
  bodyBytes = 0;
  span: RequestSpan | undefined;

  private constructor(req: IncomingMessage) {
    this.id = requestIdFrom(req.headers['x-request-id']);
    this.target = req.url ?? '';
  }

  /** Call once, when the request arrives. */
  static begin(req: IncomingMessage): RequestContext {
    const context = new RequestContext(req);
    (req as RequestWithContext)[CONTEXT] = context;
    return context;
  }

  /** @returns undefined for a request that the service did not begin, such as one for metrics */
  static of(req: IncomingMessage): RequestContext | undefined {
    return (req as RequestWithContext)[CONTEXT];
  }

  /**
   * Defers headers until the response is written. They go out together with the response's own, in one call: setting
   * headers one by one costs Node a map, a check and a lower-cased name for each.
   */
  deferHeaders(headers: readonly HeaderPair[]): void {
    for (const [name, value] of headers) {
      this.headers.push(name, value);
    }
  }
}

/** Safe in a log line and in a header, long enough for any common scheme, and no API key. */
const WELL_FORMED_REQUEST_ID = /^(?!.*pst_)[A-Za-z0-9._-]{1,64}$/;

/** The client's own request id when it is well-formed, a new one otherwise. */
export function requestIdFrom(header: string | string[] | undefined): string {
  return typeof header === 'string' && WELL_FORMED_REQUEST_ID.test(header) ? header : randomUUID();
}
