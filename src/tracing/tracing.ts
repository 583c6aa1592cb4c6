import { tracingChannel } from 'node:diagnostics_channel';
import type { IncomingMessage } from 'node:http';

/** A request, from its headers until its response has ended. */
export interface TracedRequest {
  readonly id: string;
  readonly req: IncomingMessage;
  /** Set when it has ended. Without its path: a caller may have put a key there. */
  readonly ended?: EndedRequest | undefined;
}

export interface EndedRequest {
  readonly method: string;
  /** The route template; undefined when none matched. */
  readonly route: string | undefined;
  /** Undefined when no response was sent. */
  readonly status: number | undefined;
  /** Whether the response was not sent in full. */
  readonly aborted: boolean;
}

/** A statement, in the terms of the OpenTelemetry conventions for databases. */
export interface TracedStatement {
  readonly operation: 'COPY' | 'UPDATE';
  readonly table: string;
  /** How many operations the statement combines. */
  readonly batchSize?: number;
}

/** What spans are made of. Without subscribers the channels cost nothing. */
export const requests = tracingChannel<unknown, TracedRequest>('petstore.request');
export const statements = tracingChannel<unknown, TracedStatement>('petstore.statement');

/** Runs a statement. Node 20 would wrap it without subscribers, too, which costs a short list a twentieth. */
export function traced<T>(statement: TracedStatement, run: () => Promise<T>): Promise<T> {
  return statements.start.hasSubscribers ? statements.tracePromise(run, statement) : run();
}
