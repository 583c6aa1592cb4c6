import type { IncomingMessage } from 'node:http';
import { propagation, ROOT_CONTEXT, type Span, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';

/** Its spans do nothing unless `open-telemetry.ts` has started the SDK. Attributes follow the OpenTelemetry semantic conventions. */
const tracer = trace.getTracer('petstore-orders');

/** How a request ended. Without its path: a client may have put a key there. */
export interface EndedRequest {
  readonly method: string;
  /** The route template; undefined when none matched. */
  readonly route: string | undefined;
  /** Undefined when no response was sent. */
  readonly status: number | undefined;
  /** Whether the response was not sent in full. */
  readonly aborted: boolean;
}

/** A statement, in the terms of the conventions for databases. */
export interface TracedStatement {
  readonly operation: 'COPY' | 'UPDATE';
  readonly table: string;
  /** How many operations the statement combines. */
  readonly batchSize?: number;
}

/** Handles a request in a span, in the trace of its caller. {@link endRequestSpan} ends it. */
export function traceRequest(req: IncomingMessage, handle: (span: Span) => void): void {
  const caller = propagation.extract(ROOT_CONTEXT, req.headers);
  tracer.startActiveSpan(req.method ?? 'HTTP', { kind: SpanKind.SERVER }, caller, handle);
}

/** @param requestId correlates the span with log lines */
export function endRequestSpan(span: Span, requestId: string, { method, route, status, aborted }: EndedRequest): void {
  span.updateName(route === undefined ? method : `${method} ${route}`);
  span.setAttributes({
    'http.request.method': method,
    'http.route': route,
    'http.response.status_code': status,
    'url.scheme': 'http',
    'http.request.header.x-request-id': [requestId],
  });
  if (aborted) {
    fail(span, 'aborted');
  } else if (status !== undefined && status >= 500) {
    fail(span, String(status));
  }
  span.end();
}

/** Runs a statement in a span, a child of that of its request. */
export function traced<T>({ operation, table, batchSize = 1 }: TracedStatement, run: () => Promise<T>): Promise<T> {
  const summary = `${operation} ${table}`;
  const attributes = {
    'db.system.name': 'postgresql',
    'db.operation.name': operation,
    'db.collection.name': table,
    'db.query.summary': summary,
    // By the conventions only for batches of two or more.
    'db.operation.batch.size': batchSize > 1 ? batchSize : undefined,
  };
  return tracer.startActiveSpan(summary, { kind: SpanKind.CLIENT, attributes }, async (span) => {
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

/** Sets the type of an error only: its message may hold data, and belongs in the log. */
function fail(span: Span, type: string): void {
  span.setAttribute('error.type', type);
  span.setStatus({ code: SpanStatusCode.ERROR });
}
