import type { IncomingMessage } from 'node:http';

/** Injection token of the {@link Tracing}. */
export const TRACING = Symbol('tracing');

/** What is told about a request when it has ended. Paths are not: a caller may have put a key there. */
export interface EndedRequest {
  readonly method: string;
  /** The route template; undefined when none matched. */
  readonly route: string | undefined;
  readonly status: number;
  readonly requestId: string;
}

/** The span of a request that is being handled. */
export interface RequestSpan {
  /** Handles the request; what this starts becomes a part of its trace. */
  run(handle: () => void): void;
  end(request: EndedRequest): void;
}

/** A statement, in the terms of the OpenTelemetry conventions for databases. */
export interface StatementSpan {
  readonly operation: 'COPY' | 'UPDATE';
  readonly table: string;
  /** How many of the operation the statement carries out together. */
  readonly batchSize?: number;
}

/** Starts spans. Nothing in the service depends on whether they go anywhere. */
export interface Tracing {
  /** Starts the span of a request, in the trace of its caller where it names one (W3C Trace Context). */
  startRequest(req: IncomingMessage): RequestSpan;
  /** Runs a statement in a span, a part of the request that it is run for. */
  statement<T>(statement: StatementSpan, run: () => Promise<T>): Promise<T>;
}

/** For statements while nothing is traced. */
export const NO_TRACING: Pick<Tracing, 'statement'> = {
  statement: (_statement, run) => run(),
};
