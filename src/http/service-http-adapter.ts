import { createServer, IncomingMessage, type ServerOptions, ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express } from 'express';
import type { Config } from '../config/config.js';
import { Connections } from './connections.js';
import { HEADERS_MAX } from './framing.js';
import { routableTarget } from './paths.js';

/** Milliseconds and bytes; `docs/operations.md` lists the bounds. */
const SERVER_OPTIONS = {
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  connectionsCheckingInterval: 5_000,
  maxHeaderSize: 16_384,
  // Node would respond to a request without Host with an empty body; `framingError` checks it.
  requireHostHeader: false,
  // By default Node keeps the first of several Host or Authorization headers; a proxy may have used another one.
  joinDuplicateHeaders: true,
} as const;

/**
 * The part of `MAX_CONNECTIONS` that may be kept alive. Beyond it a connection ends with its next response, so that those which are open and
 * unused leave room for others. HAProxy keeps a connection to the service until its client has read the response, however small that is.
 */
const KEPT_ALIVE_SHARE = 0.5;

/** Express behind an HTTP server with options that Nest does not pass on. */
export class ServiceHttpAdapter extends ExpressAdapter {
  readonly connections: Connections;

  constructor(private readonly config: Config) {
    const app = express();
    // Before the first route: Express creates its router from these settings.
    app.enable('case sensitive routing').enable('strict routing');
    app.disable('x-powered-by').disable('etag').disable('query parser');
    super(app);
    this.connections = new Connections(config.connectionsMax * KEPT_ALIVE_SHARE);
  }

  override initHttpServer(): void {
    const app = this.getInstance<Express>();
    const server = createServer({
      ...SERVER_OPTIONS,
      ...expressMessages(app),
      keepAliveTimeout: this.config.keepAliveTimeoutSeconds * 1_000,
    });
    server.maxConnections = this.config.connectionsMax;
    // Node silently drops headers beyond this number, such as a second `Authorization`. `framingError` rejects a request that reaches it.
    server.maxHeadersCount = HEADERS_MAX + 1;
    // Milliseconds without a byte in either direction; Node waits twice as long while the client takes none of a response.
    server.timeout = 300_000;
    // `close` calls it, and Node takes a connection for idle whose response has ended and is not sent yet. `Connections.endIdle` waits.
    server.closeIdleConnections = () => undefined;
    this.connections.watch(server);
    const handle = (req: IncomingMessage & { originalUrl?: string }, res: ServerResponse): void => {
      if (this.connections.begin(req, res)) {
        req.originalUrl = req.url ?? '';
        req.url = routableTarget(req.originalUrl);
        app(req, res);
      }
    };
    // No operation takes a body, so that a request with an expectation gets its response at once (RFC 9110 section 10.1.1). By default
    // Node sends `100 Continue`, also within the response to an earlier pipelined request, or an empty 417.
    server.on('request', handle).on('checkContinue', handle).on('checkExpectation', handle);
    this.setHttpServer(server);
  }

  /** Resolves when every pending response has ended, so that what they count and log is there when modules stop. */
  override async close(): Promise<void> {
    const closed = super.close() as Promise<void> | undefined;
    this.connections.startDraining();
    this.connections.endIdle();
    await closed;
    // The responses of connections that were cut close within two turns of the event loop after these.
    await nextTurn();
    await nextTurn();
  }
}

/**
 * Message classes for an HTTP server whose requests and responses have Express's prototypes from the start.
 *
 * Express changes the prototype of every message. V8 then deoptimises all code that uses the message, which took more than
 * a third of the time of a request. Express leaves messages alone that are created with its prototypes.
 */
function expressMessages(app: Express): Pick<ServerOptions, 'IncomingMessage' | 'ServerResponse'> {
  class ExpressRequest extends IncomingMessage {}
  class ExpressResponse<Request extends IncomingMessage> extends ServerResponse<Request> {}
  Object.setPrototypeOf(ExpressRequest.prototype, app.request);
  Object.setPrototypeOf(ExpressResponse.prototype, app.response);
  Object.assign(app, { request: ExpressRequest.prototype, response: ExpressResponse.prototype });
  return { IncomingMessage: ExpressRequest, ServerResponse: ExpressResponse };
}
