import type { IncomingMessage, ServerResponse } from 'node:http';
import { Inject, Injectable } from '@nestjs/common';
import type { Logger } from 'pino';
import { REQUEST_LOGGER } from '../logging/request-logger.js';
import { Metrics } from '../metrics/metrics.js';
import { AdmissionService } from '../admission/admission.service.js';
import type { RequestSpan } from '../tracing/tracing.js';
import { routeTemplateOf } from './route-template.js';

const KNOWN_METHODS = new Set(['GET', 'HEAD', 'DELETE', 'POST', 'PUT', 'PATCH', 'OPTIONS']);
/** What the OpenTelemetry conventions call methods that anybody could make up. */
const OTHER_METHOD = '_OTHER';
/** The label of every path without a route: made-up paths have unbounded cardinality. */
const UNMATCHED_ROUTE = 'unmatched';

/** Measures and logs every request once, when its answer has ended or its connection has. */
@Injectable()
export class RequestObserver {
  constructor(
    private readonly metrics: Metrics,
    private readonly admission: AdmissionService,
    @Inject(REQUEST_LOGGER) private readonly logger: Logger,
  ) {}

  /**
   * @param span of the request, where it is traced
   * @returns to be called when the answer has ended or its connection has
   */
  observe(req: IncomingMessage, res: ServerResponse, requestId: string, span?: RequestSpan): () => void {
    const startedAtMs = performance.now();
    // Express shortens the URL while it walks its routers.
    const target = req.url ?? '';
    return () => {
      this.#ended(req, res, target, requestId, performance.now() - startedAtMs, span);
    };
  }

  #ended(
    req: IncomingMessage,
    res: ServerResponse,
    target: string,
    requestId: string,
    durationMs: number,
    span: RequestSpan | undefined,
  ): void {
    const method = KNOWN_METHODS.has(req.method ?? '') ? (req.method ?? '') : OTHER_METHOD;
    const template = routeTemplateOf(target);
    const route = template ?? UNMATCHED_ROUTE;
    this.metrics.requestDurations.observe(
      { http_request_method: method, http_route: route, http_response_status_code: res.statusCode },
      durationMs / 1_000,
    );
    span?.end({ method, route: template, status: res.statusCode, requestId });
    if (!this.logger.isLevelEnabled('info')) {
      return;
    }
    const caller = this.admission.settledAdmissionOf(req)?.caller;
    this.logger.info({
      requestId,
      method,
      route,
      status: res.statusCode,
      durationMs: Math.round(durationMs * 1_000) / 1_000,
      ...(res.writableFinished ? {} : { aborted: true }),
      ...(caller?.kind === 'key' ? { keyId: caller.key.id, plan: caller.key.plan } : {}),
    });
  }
}
