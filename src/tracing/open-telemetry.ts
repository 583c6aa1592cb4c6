import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe, type TracingChannel } from 'node:diagnostics_channel';
import {
  diag,
  DiagLogLevel,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import * as conventions from '@opentelemetry/semantic-conventions';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { Logger } from '@nestjs/common';
import { withDeadline } from '../common/deadline.js';
import { requests, statements, type TracedRequest, type TracedStatement } from './tracing.js';

const SERVICE_NAME = 'petstore-orders';

/** How long a stop waits until the last spans have been exported. Milliseconds. */
const FLUSH_TIMEOUT_MS = 2_000;

/**
 * Exports the spans of requests and statements by OTLP/HTTP in JSON. The SDK itself reads the `OTEL_` variables of its
 * specification, the endpoint included. Importing this file loads the SDK, so it is imported only when an endpoint is configured.
 */
export class OpenTelemetry {
  readonly #provider: NodeTracerProvider;
  /** The span that is the parent of those of statements. */
  readonly #current = new AsyncLocalStorage<Span | undefined>();

  readonly #logger = new Logger('OpenTelemetry');

  constructor() {
    const log = (message: string): void => {
      this.#logger.warn(message);
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
    const tracer = trace.getTracer(SERVICE_NAME);
    this.#trace(
      requests,
      ({ req }) => {
        const caller = propagation.extract(ROOT_CONTEXT, req.headers);
        return tracer.startSpan(req.method ?? 'HTTP', { kind: SpanKind.SERVER }, caller);
      },
      describeRequest,
    );
    this.#trace(
      statements,
      (statement) => startStatement(tracer, statement, this.#current.getStore()),
      describeFailure,
    );
  }

  /** Makes a span of what a channel announces. */
  #trace<Message extends object>(
    channel: TracingChannel<unknown, Message>,
    start: (message: Message) => Span,
    describe: (span: Span, message: Message) => void,
  ): void {
    const spans = new WeakMap<Message, Span>();
    const begin = (message: Message): Span => {
      const span = start(message);
      spans.set(message, span);
      return span;
    };
    const end = (message: Message, span = spans.get(message)): void => {
      if (span !== undefined) {
        describe(span, message);
        span.end();
      }
    };
    channel.start.bindStore(this.#current, this.#guarded(begin));
    subscribe(channel.asyncEnd.name, this.#guarded(end));
  }

  /** Node reports an error of a subscriber as an uncaught exception, which would end the process. */
  #guarded<Result>(run: (message: never) => Result): (message: unknown) => Result | undefined {
    return (message) => {
      try {
        return run(message as never);
      } catch (error) {
        this.#logger.warn(`failed to trace: ${String(error)}`);
        return undefined;
      }
    };
  }

  /** Exports the remaining spans. Never rejects: an unreachable receiver must not prevent a stop. */
  async stop(): Promise<void> {
    try {
      await withDeadline(this.#provider.shutdown(), FLUSH_TIMEOUT_MS);
    } catch (error) {
      this.#logger.warn(`failed to export the last spans: ${String(error)}`);
    }
  }
}

function startStatement(tracer: Tracer, { operation, table, batchSize = 1 }: TracedStatement, parent?: Span): Span {
  const summary = `${operation} ${table}`;
  const attributes = {
    [conventions.ATTR_DB_SYSTEM_NAME]: conventions.DB_SYSTEM_NAME_VALUE_POSTGRESQL,
    [conventions.ATTR_DB_OPERATION_NAME]: operation,
    [conventions.ATTR_DB_COLLECTION_NAME]: table,
    [conventions.ATTR_DB_QUERY_SUMMARY]: summary,
    // By the conventions only for batches of two or more.
    ...(batchSize > 1 ? { [conventions.ATTR_DB_OPERATION_BATCH_SIZE]: batchSize } : {}),
  };
  const context = parent && trace.setSpan(ROOT_CONTEXT, parent);
  return tracer.startSpan(summary, { kind: SpanKind.CLIENT, attributes }, context);
}

/** @param statement with the error that Node adds when its promise is rejected */
function describeFailure(span: Span, statement: TracedStatement & { readonly error?: unknown }): void {
  if ('error' in statement) {
    fail(span, statement.error instanceof Error ? statement.error.name : typeof statement.error);
  }
}

function describeRequest(span: Span, { id, ended }: TracedRequest): void {
  const { method = '', route, status, aborted = true } = ended ?? {};
  span.updateName(route === undefined ? method : `${method} ${route}`);
  span.setAttributes({
    [conventions.ATTR_HTTP_REQUEST_METHOD]: method,
    ...(route === undefined ? {} : { [conventions.ATTR_HTTP_ROUTE]: route }),
    ...(status === undefined ? {} : { [conventions.ATTR_HTTP_RESPONSE_STATUS_CODE]: status }),
    [conventions.ATTR_URL_SCHEME]: 'http',
    // Correlates spans and log lines.
    'http.request.header.x-request-id': [id],
  });
  if (aborted) {
    fail(span, 'aborted');
  } else if (status !== undefined && status >= 500) {
    fail(span, String(status));
  }
}

/** Sets the type of an error only: its message may hold data, and belongs in the log. */
function fail(span: Span, type: string): void {
  span.setAttribute(conventions.ATTR_ERROR_TYPE, type);
  span.setStatus({ code: SpanStatusCode.ERROR });
}
