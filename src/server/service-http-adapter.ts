import { createServer, IncomingMessage, type ServerOptions, ServerResponse } from 'node:http';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express } from 'express';
import { Connections } from './connections.js';
import { HEADERS_MAX } from './framing.js';

/** Milliseconds and bytes; `docs/operations.md` gives the reasons. */
const SERVER_OPTIONS = {
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  // Above the 60 s after which common balancers drop an idle connection, so that they never reuse one that we closed.
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 5_000,
  maxHeaderSize: 16_384,
  // Node would respond to a request without Host with an empty body; `framingError` checks it.
  requireHostHeader: false,
  // By default Node keeps the first of several Host or Authorization headers; a proxy may have used another one.
  joinDuplicateHeaders: true,
} as const;

/**
 * Express behind an HTTP server of our own: with timeouts that Nest does not expose, and with what `RequestHandler` does
 * before Express.
 */
export class ServiceHttpAdapter extends ExpressAdapter {
  readonly connections = new Connections();

  /** @param connectionsMax connections that are open at once; beyond it some are closed for new ones */
  constructor(private readonly connectionsMax = Infinity) {
    const app = express();
    // Before the first route: Express creates its router from these settings.
    app.enable('case sensitive routing').enable('strict routing');
    app.disable('x-powered-by').disable('etag').disable('query parser');
    super(app);
  }

  /** Resolves when every pending response has ended. Connections without one are ended at once. */
  override close(): Promise<void> | undefined {
    this.connections.startDraining();
    this.connections.closeIdle();
    return super.close() as Promise<void> | undefined;
  }

  override initHttpServer(): void {
    const server = createServer({ ...SERVER_OPTIONS, ...expressMessages(this.getInstance<Express>()) });
    this.connections.watch(server, this.connectionsMax);
    // Node silently drops headers beyond this number, such as a second `Authorization`. `framingError` rejects a request that reaches it.
    server.maxHeadersCount = HEADERS_MAX + 1;
    // Milliseconds without a byte in either direction; Node waits twice as long while the client takes none of a response.
    server.timeout = 300_000;
    this.setHttpServer(server);
  }
}

/**
 * Message classes for an HTTP server whose requests and responses have Express's prototypes from the start.
 *
 * Express changes the prototype of every message. V8 then deoptimises all code that uses the message, which took more than
 * a third of the time of a request. Express leaves messages alone that are created with its prototypes.
 */
export function expressMessages(app: Express): Pick<ServerOptions, 'IncomingMessage' | 'ServerResponse'> {
  class ExpressRequest extends IncomingMessage {}
  class ExpressResponse<Request extends IncomingMessage> extends ServerResponse<Request> {}
  Object.setPrototypeOf(ExpressRequest.prototype, app.request);
  Object.setPrototypeOf(ExpressResponse.prototype, app.response);
  Object.assign(app, { request: ExpressRequest.prototype, response: ExpressResponse.prototype });
  return { IncomingMessage: ExpressRequest, ServerResponse: ExpressResponse };
}
