import type { IncomingMessage } from 'node:http';

/** Injection token of the {@link Tracing}. */
export const TRACING = Symbol('tracing');

/** An ended request, without its path: a caller may have put a key there. */
export interface EndedRequest {
  readonly method: string;
  /** The route template; undefined when none matched. */
  readonly route: string | undefined;
  /** Undefined when no response was sent. */
  readonly status: number | undefined;
  /** Whether the response was not sent in full. */
  readonly aborted: boolean;
  readonly requestId: string;
}

/** The span of a request that is being handled. */
export interface RequestSpan {
  /** Handles the request; spans that start meanwhile are its children. */
  run(handle: () => void): void;
  end(request: EndedRequest): void;
}

/** A statement, in the terms of the OpenTelemetry conventions for databases. */
export interface StatementSpan {
  readonly operation: 'COPY' | 'UPDATE';
  readonly table: string;
  /** How many operations the statement combines. */
  readonly batchSize?: number;
}

/** Starts spans. Requests never depend on whether they are exported. */
export interface Tracing {
  /** Starts the span of a request, in the trace that its `traceparent` header names, if any (W3C Trace Context). */
  startRequest(req: IncomingMessage): RequestSpan;
  /** Runs a statement in a span, a child of that of its request. */
  statement<T>(statement: StatementSpan, run: () => Promise<T>): Promise<T>;
}

const NO_SPAN: RequestSpan = {
  run: (handle) => {
    handle();
  },
  end: () => undefined,
};

/** Handles requests and runs statements without spans. */
export const NO_TRACING: Tracing = { startRequest: () => NO_SPAN, statement: (_statement, run) => run() };
