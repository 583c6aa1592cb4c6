import type { IncomingMessage, ServerResponse } from 'node:http';
import { Inject, Injectable } from '@nestjs/common';
import { type DestinationStream, type Logger, pino } from 'pino';
import { UsageRecorder } from '../api-keys/usage/usage-recorder.js';
import { logBackgroundError } from '../common/in-background.js';
import { LIST_ROUTE, ORDER_ROUTE, routeTemplateOf } from '../http/paths.js';
import type { Admission, RequestContext } from '../http/request-context.js';
import { REQUEST_LOGGER } from '../logging/pino-logger.js';
import { Metrics } from '../metrics/metrics.js';
import { rejectionReasonOf } from '../rate-limit/verdict.js';
import type { RequestSpan } from '../tracing/tracing.js';

/** The methods that the OpenTelemetry conventions list; all others are `_OTHER`, since clients can make up any number. */
const LISTED_METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH']);
const OTHER_METHOD = '_OTHER';
/** The label of every path without a route: made-up paths have unbounded cardinality. */
const UNMATCHED_ROUTE = 'unmatched';
const ALERTED = [
  ['GET', LIST_ROUTE, 200, 500, 503],
  ['DELETE', ORDER_ROUTE, 204, 500, 503],
] as const;

/** What a logger of pino writes its lines to. */
interface HasStream {
  readonly [pino.symbols.streamSym]: DestinationStream;
}

interface EndedExchange {
  /** Undefined when the request could not be parsed. */
  readonly method: string | undefined;
  readonly target: string;
  /** Undefined when no response was sent. */
  readonly status: number | undefined;
  /** The connection was lost, or closed on purpose, before the response had been sent in full. */
  readonly aborted: boolean;
  readonly durationMs: number;
  readonly requestId: string;
  readonly admission?: Admission | undefined;
  /** Bytes of a list body that were sent. */
  readonly bodyBytes?: number;
  readonly span?: RequestSpan | undefined;
}

/** Measures, logs and adds to the usage of its key every request once, when its response has ended or its connection is lost. */
@Injectable()
export class RequestObserver {
  readonly #log: DestinationStream;

  constructor(
    private readonly metrics: Metrics,
    private readonly usage: UsageRecorder,
    @Inject(REQUEST_LOGGER) private readonly logger: Logger,
  ) {
    this.#log = (logger as unknown as HasStream)[pino.symbols.streamSym];
    // The series that alerts read begin with 0; see Metrics.
    for (const [method, route, ...statuses] of ALERTED) {
      for (const status of statuses) {
        metrics.requestDurations.labels(method, route, status);
      }
    }
  }

  /** Call once, when the response has ended or its connection is lost. Never throws: no request is left to fail. */
  ended(req: IncomingMessage, res: ServerResponse, context: RequestContext): void {
    const { target, startedAtMs, id, admission, bodyBytes, span } = context;
    try {
      this.record({
        method: req.method,
        target,
        status: res.headersSent ? res.statusCode : undefined,
        // A response whose end is still buffered when its connection is destroyed counts as finished for Node.
        aborted: !res.writableFinished || req.socket.destroyed,
        durationMs: performance.now() - startedAtMs,
        requestId: id,
        admission,
        bodyBytes,
        span,
      });
    } catch (error) {
      logBackgroundError(error);
    }
  }

  record(exchange: EndedExchange): void {
    const { method: sent = '', target, status, aborted, durationMs, requestId, admission, span } = exchange;
    const caller = admission?.caller;
    const method = LISTED_METHODS.has(sent) ? sent : OTHER_METHOD;
    const template = routeTemplateOf(target);
    const route = template ?? UNMATCHED_ROUTE;
    const { requestDurations } = this.metrics;
    const series =
      aborted || status === undefined
        ? requestDurations.labels(method, route, '', 'aborted')
        : requestDurations.labels(method, route, status);
    series.observe(durationMs / 1_000);
    if (caller?.kind === 'key') {
      this.#addToUsage(caller.key.id, method, template, exchange);
    }
    span?.end({ method, route: template, status, aborted, requestId });
    if (this.logger.isLevelEnabled('info')) {
      this.#log.write(lineOf(exchange, method, route));
    }
  }

  #addToUsage(
    keyId: string,
    method: string,
    route: string | undefined,
    { status, bodyBytes = 0 }: EndedExchange,
  ): void {
    if (route === LIST_ROUTE && method === 'GET' && (status === 200 || status === 304)) {
      this.usage.listed(keyId, bodyBytes);
    } else if (route === ORDER_ROUTE && method === 'DELETE' && status === 204) {
      this.usage.cancelled(keyId);
    }
  }
}

/**
 * The log line of a request, as pino would write it at many times the cost. Its values come from small sets or have been checked,
 * so that none needs an escape.
 */
function lineOf(
  { status, aborted, durationMs, requestId, admission }: EndedExchange,
  method: string,
  route: string,
): string {
  const caller = admission?.caller;
  const rejection = admission && rejectionReasonOf(admission.verdict);
  return (
    `{"level":${pino.levels.values.info},"time":"${new Date().toISOString()}","requestId":"${requestId}"` +
    `,"method":"${method}","route":"${route}"${status === undefined ? '' : `,"status":${status}`}` +
    `,"durationMs":${Math.round(durationMs * 1_000) / 1_000}${aborted ? ',"aborted":true' : ''}` +
    (rejection === undefined ? '' : `,"rejection":"${rejection}"`) +
    `${caller?.kind === 'key' ? `,"keyId":"${caller.key.id}","plan":"${caller.key.plan}"` : ''}}\n`
  );
}
