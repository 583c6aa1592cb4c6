import { Inject, Injectable } from '@nestjs/common';
import type { NextFunction, Request, Response } from 'express';
import { logBackgroundError } from '../common/in-background.js';
import { REQUEST_LOG, type RequestLog } from '../logging/create-logger.js';
import { Metrics } from '../metrics/metrics.js';
import { type EndedRequest, endRequestSpan, traceRequest } from '../tracing/tracing.js';
import { LIST_ROUTE, ORDER_ROUTE } from './paths.js';
import { REQUEST_ID_HEADER, requestIdFrom } from './request.js';
import { setDefaultHeaders } from './response.js';

/** The label of every path without a route. */
const UNMATCHED_ROUTE = 'unmatched';
/** What the log shows of a path: its start, before a key or anything that may spell one, such as an escape. */
const LOGGABLE_PATH = /^(?:(?!pst_)[\w./~-]){0,200}/i;
const ALERTED = [
  ['GET', LIST_ROUTE, 200, 500, 503],
  ['DELETE', ORDER_ROUTE, 204, 500, 503],
] as const;

/** The first middleware: request id, default headers, span, and one measurement and log line when the response has ended. */
@Injectable()
export class RequestObserver {
  constructor(
    private readonly metrics: Metrics,
    @Inject(REQUEST_LOG) private readonly log: RequestLog | null,
  ) {
    // The series that alerts read begin with 0; see Metrics.
    for (const [method, route, ...statuses] of ALERTED) {
      for (const status of statuses) {
        metrics.requestDurations.zero({
          http_request_method: method,
          http_route: route,
          http_response_status_code: status,
        });
      }
    }
  }

  readonly observe = (req: Request, res: Response, next: NextFunction): void => {
    const startedAtMs = performance.now();
    req.id = requestIdFrom(req.headers['x-request-id']);
    res.setHeader(REQUEST_ID_HEADER, req.id);
    setDefaultHeaders(res);
    traceRequest(req, (span) => {
      // Also when its connection is lost.
      res.once('close', () => {
        try {
          const ended = endedRequest(res);
          this.#record(ended, req, performance.now() - startedAtMs);
          endRequestSpan(span, req.id, ended);
        } catch (error) {
          // No request is left to fail.
          logBackgroundError(error);
        }
      });
      next();
    });
  };

  #record(ended: EndedRequest, req: Request, durationMs: number): void {
    const { method, route, status, aborted } = ended;
    const labels = {
      http_request_method: method,
      http_route: route ?? UNMATCHED_ROUTE,
      ...(aborted || status === undefined ? { error_type: 'aborted' } : { http_response_status_code: status }),
    };
    this.metrics.requestDurations.labels(labels).observe(durationMs / 1_000);
    const { id: requestId, caller, rejection, originalUrl } = req;
    this.log?.({
      requestId,
      method,
      route: route ?? UNMATCHED_ROUTE,
      // A client may put data into the path of a known route.
      path: route === undefined ? LOGGABLE_PATH.exec(originalUrl)?.[0] : undefined,
      status,
      durationMs: Math.round(durationMs * 1_000) / 1_000,
      aborted: aborted || undefined,
      rejection,
      keyId: caller?.id,
      plan: caller?.plan,
    });
  }
}

function endedRequest({ req, headersSent, statusCode, writableFinished }: Response): EndedRequest {
  return {
    method: req.method,
    route: routeTemplateOf(req),
    status: headersSent ? statusCode : undefined,
    // A response whose end is still buffered when its connection is destroyed counts as finished for Node.
    aborted: !writableFinished || req.socket.destroyed,
  };
}

/**
 * The template of the route that Express has found, in the form of the API document; undefined when it is the one of all other paths: those
 * that clients make up have unbounded cardinality.
 */
function routeTemplateOf({ route, baseUrl }: Request): string | undefined {
  const path = (route as { path: string } | undefined)?.path ?? baseUrl;
  return path === '' || path.includes('*') ? undefined : path.replace(/:(\w+)/, '{$1}');
}
