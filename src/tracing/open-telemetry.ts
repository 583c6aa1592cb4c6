import type { IncomingMessage } from 'node:http';
import {
  type Attributes,
  context,
  diag,
  DiagLogLevel,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import * as conventions from '@opentelemetry/semantic-conventions';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import type { Logger } from 'pino';
import { withDeadline } from '../common/deadline.js';
import type { EndedRequest, RequestSpan, StatementSpan, Tracing } from './tracing.js';

const SERVICE_NAME = 'petstore-orders';

/** How long a stop waits until the last spans have been exported. Milliseconds. */
const FLUSH_TIMEOUT_MS = 2_000;

/**
 * Exports spans by OTLP/HTTP in JSON. The SDK itself reads the `OTEL_` variables of its specification, the endpoint
 * included. Importing this file loads the SDK, so it is imported only when an endpoint is configured.
 */
export class OpenTelemetry implements Tracing {
  readonly #provider: NodeTracerProvider;
  readonly #tracer;

  /** @param logger gets the warnings and errors of the SDK */
  constructor(private readonly logger: Logger) {
    const log = (message: string): void => {
      logger.warn({ context: 'OpenTelemetry' }, message);
    };
    const ignore = (): void => undefined;
    diag.setLogger({ error: log, warn: log, info: ignore, debug: ignore, verbose: ignore }, DiagLogLevel.WARN);
    this.#provider = new NodeTracerProvider({
      resource: defaultResource()
        .merge(resourceFromAttributes({ [conventions.ATTR_SERVICE_NAME]: SERVICE_NAME }))
        .merge(detectResources({ detectors: [envDetector] })),
      spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
    });
    this.#provider.register();
    this.#tracer = trace.getTracer(SERVICE_NAME);
  }

  startRequest(req: IncomingMessage): RequestSpan {
    const caller = propagation.extract(ROOT_CONTEXT, req.headers);
    const span = this.#tracer.startSpan(req.method ?? 'HTTP', { kind: SpanKind.SERVER }, caller);
    return {
      run: (handle) => {
        context.with(trace.setSpan(caller, span), handle);
      },
      end: (request) => {
        endRequest(span, request);
      },
    };
  }

  async statement<T>({ operation, table, batchSize = 1 }: StatementSpan, run: () => Promise<T>): Promise<T> {
    const summary = `${operation} ${table}`;
    const attributes: Attributes = {
      [conventions.ATTR_DB_SYSTEM_NAME]: conventions.DB_SYSTEM_NAME_VALUE_POSTGRESQL,
      [conventions.ATTR_DB_OPERATION_NAME]: operation,
      [conventions.ATTR_DB_COLLECTION_NAME]: table,
      [conventions.ATTR_DB_QUERY_SUMMARY]: summary,
      // By the conventions only for batches of two or more.
      ...(batchSize > 1 ? { [conventions.ATTR_DB_OPERATION_BATCH_SIZE]: batchSize } : {}),
    };
    return this.#tracer.startActiveSpan(summary, { kind: SpanKind.CLIENT, attributes }, async (span) => {
      try {
        return await run();
      } catch (error) {
        fail(span, error instanceof Error ? error.name : typeof error);
        throw error;
      } finally {
        span.end();
      }
    });
  }

  /** Exports the remaining spans. Never rejects: an unreachable receiver must not prevent a stop. */
  async stop(): Promise<void> {
    try {
      await withDeadline(this.#provider.shutdown(), FLUSH_TIMEOUT_MS);
    } catch (error) {
      this.logger.warn({ context: 'OpenTelemetry' }, `failed to export the last spans: ${String(error)}`);
    }
  }
}

function endRequest(span: Span, { method, route, status, aborted, requestId }: EndedRequest): void {
  span.updateName(route === undefined ? method : `${method} ${route}`);
  span.setAttributes({
    [conventions.ATTR_HTTP_REQUEST_METHOD]: method,
    ...(route === undefined ? {} : { [conventions.ATTR_HTTP_ROUTE]: route }),
    ...(status === undefined ? {} : { [conventions.ATTR_HTTP_RESPONSE_STATUS_CODE]: status }),
    [conventions.ATTR_URL_SCHEME]: 'http',
    // Correlates spans and log lines.
    'http.request.header.x-request-id': [requestId],
  });
  if (aborted) {
    fail(span, 'aborted');
  } else if (status !== undefined && status >= 500) {
    fail(span, String(status));
  }
  span.end();
}

/** Sets the type of an error only: its message may hold data, and belongs in the log. */
function fail(span: Span, type: string): void {
  span.setAttribute(conventions.ATTR_ERROR_TYPE, type);
  span.setStatus({ code: SpanStatusCode.ERROR });
}
