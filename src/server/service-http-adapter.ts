import { createServer } from 'node:http';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express } from 'express';
import { Connections } from './connections.js';
import { corsFor, type CorsHandler } from './cors.js';
import { expressMessages } from './express-messages.js';
import { RequestHandler, type RequestServices } from './request-handler.js';

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
} as const;

export interface ServiceHttpOptions {
  /** Origins of web pages that may call the API; none by default. */
  readonly corsOrigins?: readonly string[];
  /** Connections that are open at once; beyond it idle ones are closed for new ones. Unlimited by default. */
  readonly connectionsMax?: number;
}

/**
 * Express behind an HTTP server of our own: with timeouts that Nest does not expose, and with what
 * {@link RequestHandler} does before Express.
 */
export class ServiceHttpAdapter extends ExpressAdapter {
  #addLastRoutes: (() => void) | undefined;
  readonly #cors: CorsHandler | undefined;
  readonly #connectionsMax: number;
  readonly #connections = new Connections();

  constructor(options: ServiceHttpOptions = {}) {
    const app = express();
    // Before the first route: Express creates its router from these settings.
    app.enable('case sensitive routing').enable('strict routing');
    app.disable('x-powered-by').disable('etag').disable('query parser');
    super(app);
    this.#cors = corsFor(options.corsOrigins ?? []);
    this.#connectionsMax = options.connectionsMax ?? Infinity;
  }

  /** Call before the server listens. */
  useServices(services: RequestServices): void {
    const express = this.getInstance<Express>();
    new RequestHandler(express, this.#connections, services, this.#cors).listenTo(this.getHttpServer());
  }

  /** Adds routes after those of the operations: Express tries them in order, and most requests are operations. */
  addLastRoutes(add: () => void): void {
    this.#addLastRoutes = add;
  }

  /** Nest calls this when every controller has its routes. */
  override setNotFoundHandler(...handler: Parameters<ExpressAdapter['setNotFoundHandler']>): unknown {
    this.#addLastRoutes?.();
    return super.setNotFoundHandler(...handler) as unknown;
  }

  /** From now on each connection ends with its last pending response. */
  startDraining(): void {
    this.#connections.startDraining();
  }

  /** Resolves when every pending response has ended. Connections without one are closed at once. */
  override close(): Promise<void> | undefined {
    this.#connections.startDraining();
    this.#connections.closeIdle();
    return super.close() as Promise<void> | undefined;
  }

  /** Closes all connections at once, whatever responses are pending. */
  closeAllConnections(): void {
    this.#connections.closeAll();
  }

  override initHttpServer(): void {
    const app = this.getInstance<Express>();
    const server = createServer({ ...SERVER_OPTIONS, ...expressMessages(app) });
    this.#connections.watch(server, this.#connectionsMax);
    // By default Node silently drops the headers after the 2,000th, a second `Authorization` for instance.
    server.maxHeadersCount = 0;
    this.setHttpServer(server);
  }
}
