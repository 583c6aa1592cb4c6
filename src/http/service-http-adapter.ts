import { createServer, IncomingMessage, type Server, type ServerOptions, ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express } from 'express';
import type { Config } from '../config/config.js';
import { Connections } from './connections.js';
import { routableTarget } from './paths.js';

/** Milliseconds and bytes; `docs/operations.md` lists the bounds. */
const SERVER_OPTIONS = {
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  connectionsCheckingInterval: 5_000,
  maxHeaderSize: 16_384,
  // Node would respond to a request without Host, which nothing here reads, with an empty body.
  requireHostHeader: false,
  // By default Node keeps the first of several Authorization headers; a proxy may have used another one.
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
    app.disable('x-powered-by').disable('query parser');
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
    // No limit but that of the size: Node silently drops headers beyond one, such as a second `Authorization`.
    server.maxHeadersCount = 0;
    // Milliseconds without a byte in either direction; Node waits twice as long while the client takes none of a response.
    server.timeout = 300_000;
    // `close` calls it, and that of Node takes a connection for idle whose response has ended and is not sent yet.
    server.closeIdleConnections = () => {
      this.connections.endIdle();
    };
    this.connections.watch(server);
    const handle = (req: IncomingMessage, res: ServerResponse): void => {
      if (this.connections.begin(req, res)) {
        req.url = routableTarget(req.url ?? '');
        app(req, res);
      }
    };
    // No operation takes a body, so that a request with an expectation gets its response at once (RFC 9110 section 10.1.1). By default
    // Node sends `100 Continue`, also within the response to an earlier pipelined request, or an empty 417.
    server.on('request', handle).on('checkContinue', handle).on('checkExpectation', handle);
    this.setHttpServer(server);
  }

  /**
   * Stops the HTTP server without losing a request. The readiness check fails already (`HealthService`), and the pools end after this. Keeps
   * responding until load balancers have noticed; in-flight requests may then take the grace period.
   */
  override async close(): Promise<void> {
    // Otherwise the start has failed, and no requests arrive here.
    if ((this.getHttpServer() as Server).listening) {
      this.connections.startDraining();
      await delay(this.config.shutdownDelaySeconds * 1_000);
      setTimeout(() => {
        this.connections.cut();
      }, this.config.shutdownGraceSeconds * 1_000).unref();
    }
    await super.close();
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
