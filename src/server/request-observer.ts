import type { ServerResponse } from 'node:http';
import { Inject, Injectable } from '@nestjs/common';
import { UsageRecorder } from '../api-keys/usage/usage-recorder.js';
import { logBackgroundError } from '../common/in-background.js';
import { LIST_ROUTE, ORDER_ROUTE, routeTemplateOf } from '../http/paths.js';
import type { Account, Admission, RequestContext } from '../http/request-context.js';
import { LEVELS, REQUEST_LOG, type RequestLog } from '../logging/json-logger.js';
import { Metrics } from '../metrics/metrics.js';
import { bindingWindow, type Verdict } from '../rate-limit/decision.js';
import { type EndedRequest, requests } from '../tracing/tracing.js';

/** The methods that the OpenTelemetry conventions list; all others are `_OTHER`, since clients can make up any number. */
const LISTED_METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE', 'PATCH']);
const OTHER_METHOD = '_OTHER';
/** The label of every path without a route: made-up paths have unbounded cardinality. */
const UNMATCHED_ROUTE = 'unmatched';
const ALERTED = [
  ['GET', LIST_ROUTE, 200, 500, 503],
  ['DELETE', ORDER_ROUTE, 204, 500, 503],
] as const;

/** Measures and logs every request once, and counts each list for its key, when the response has ended or its connection is lost. */
@Injectable()
export class RequestObserver {
  constructor(
    private readonly metrics: Metrics,
    private readonly usage: UsageRecorder,
    @Inject(REQUEST_LOG) private readonly log: RequestLog,
  ) {
    // The series that alerts read begin with 0; see Metrics.
    for (const [method, route, ...statuses] of ALERTED) {
      for (const status of statuses) {
        metrics.requestDurations.labels(method, route, status);
      }
    }
  }

  /** Call once, when the response has ended or its connection is lost. Never throws: no request is left to fail. */
  ended(res: ServerResponse, context: RequestContext): void {
    try {
      this.#record(res, context);
    } catch (error) {
      logBackgroundError(error);
    }
  }

  #record({ req, headersSent, statusCode, writableFinished }: ServerResponse, context: RequestContext): void {
    const durationMs = performance.now() - context.startedAtMs;
    const { method: sent = '' } = req;
    const method = LISTED_METHODS.has(sent) ? sent : OTHER_METHOD;
    const route = routeTemplateOf(context.target);
    const status = headersSent ? statusCode : undefined;
    // A response whose end is still buffered when its connection is destroyed counts as finished for Node.
    const aborted = !writableFinished || req.socket.destroyed;
    const request: EndedRequest = { method, route, status, aborted };
    const outcome = aborted || status === undefined ? ['', 'aborted'] : [status];
    this.metrics.requestDurations.labels(method, route ?? UNMATCHED_ROUTE, ...outcome).observe(durationMs / 1_000);
    const key = keyOf(context.admission);
    if (key !== undefined && route === LIST_ROUTE && method === 'GET' && (status === 200 || status === 304)) {
      this.usage.add(key.id, { lists: 1, listBytes: context.bodyBytes });
    }
    context.ended = request;
    requests.asyncEnd.publish(context);
    this.log?.(lineOf(request, durationMs, context));
  }
}

/**
 * The log line of a request, as `JSON.stringify` would write it at many times the cost. Its values come from small sets or have been checked,
 * so that none needs an escape.
 */
function lineOf(
  { method, route = UNMATCHED_ROUTE, status, aborted }: EndedRequest,
  durationMs: number,
  { id, admission }: RequestContext,
): string {
  const key = keyOf(admission);
  const rejection = admission && rejectionReasonOf(admission.verdict);
  return (
    `{"level":${LEVELS.log},"time":"${new Date().toISOString()}","requestId":"${id}"` +
    `,"method":"${method}","route":"${route}"${status === undefined ? '' : `,"status":${status}`}` +
    `,"durationMs":${Math.round(durationMs * 1_000) / 1_000}${aborted ? ',"aborted":true' : ''}` +
    (rejection === undefined ? '' : `,"rejection":"${rejection}"`) +
    `${key === undefined ? '' : `,"keyId":"${key.id}","plan":"${key.plan}"`}}\n`
  );
}

/** The valid key of a request, whether it was admitted or not. */
function keyOf(admission: Admission | undefined): Account | undefined {
  return admission?.error === undefined ? admission?.account : undefined;
}

/** Why a request got 429: the limit that it is over, or a ban. Undefined when it is admitted. */
function rejectionReasonOf(verdict: Verdict): 'per_minute' | 'per_day' | 'banned' | undefined {
  if (verdict.outcome === 'limited') {
    return bindingWindow(verdict) === verdict.minute ? 'per_minute' : 'per_day';
  }
  return verdict.outcome === 'banned' ? 'banned' : undefined;
}
