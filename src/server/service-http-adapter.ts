import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express } from 'express';
import type { AdmissionService } from '../admission/admission.service.js';
import { DomainError } from '../errors/domain-error.js';
import { isApiPath, originForm, withLiteralPercents } from '../http/api-path.js';
import { API_SECURITY_HEADERS, REQUEST_ID_HEADER, requestIdFrom } from '../http/headers.js';
import { deferHeaders, sendError } from '../http/response.js';
import { rateLimitHeaders } from '../rate-limit/headers.js';
import type { Tracing } from '../tracing/tracing.js';
import { Connections } from './connections.js';
import { corsFor, type CorsHandler, isPreflight } from './cors.js';
import { rejectEarly } from './early-rejection.js';
import { expressMessages } from './express-messages.js';
import { framingError } from './framing.js';
import { ParserErrors } from './parser-errors.js';
import type { RequestObserver } from './request-observer.js';

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

/** @param next called for a request that Express does not respond to */
type ExpressHandler = (req: IncomingMessage, res: ServerResponse, next: () => void) => void;

export interface ServiceHttpOptions {
  /** Origins of web pages that may call the API; none by default. */
  readonly corsOrigins?: readonly string[];
  /** Connections that are open at once; beyond it idle ones are closed for new ones. Unlimited by default. */
  readonly connectionsMax?: number;
  /** Starts a span for every request; none by default. */
  readonly tracing?: Tracing | undefined;
}

/** What the module of the application provides once it has been initialised. */
export interface RequestServices {
  readonly admission: AdmissionService;
  readonly observer: RequestObserver;
  /** Whether requests are rejected before Express; the guards reject them otherwise. */
  readonly rejectEarly: boolean;
}

/**
 * Express behind an HTTP server of our own: with timeouts that Nest does not expose, the error shape for what Node's
 * parser rejects, and early rejection.
 */
export class ServiceHttpAdapter extends ExpressAdapter {
  #services: (RequestServices & { readonly parserErrors: ParserErrors }) | undefined;
  #addLastRoutes: (() => void) | undefined;
  readonly #cors: CorsHandler | undefined;
  readonly #connectionsMax: number;
  readonly #tracing: Tracing | undefined;
  readonly #connections = new Connections();

  constructor(options: ServiceHttpOptions = {}) {
    const app = express();
    // Before the first route: Express creates its router from these settings.
    app.enable('case sensitive routing').enable('strict routing');
    app.disable('x-powered-by').disable('etag').disable('query parser');
    super(app);
    this.#cors = corsFor(options.corsOrigins ?? []);
    this.#connectionsMax = options.connectionsMax ?? Infinity;
    this.#tracing = options.tracing;
  }

  /** Call before the server listens. */
  useServices(services: RequestServices): void {
    const parserErrors = new ParserErrors(this.#connections, services.admission, services.observer);
    this.#services = { ...services, parserErrors };
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
    const handle = this.#handler(app);
    const server = createServer({ ...SERVER_OPTIONS, ...expressMessages(app) }, handle);
    // Without a listener Node responds to an unknown expectation with an empty 417.
    server.on('checkExpectation', handle);
    // No operation takes a body, so the final response comes at once (RFC 9110 section 10.1.1). Node's own
    // `100 Continue` could end up inside the response to an earlier pipelined request.
    server.on('checkContinue', handle);
    server.on('clientError', (error, socket) => {
      // Typed as a Duplex for HTTP over anything; over `listen()` it is a socket.
      void this.#services?.parserErrors.respond(error, socket as Socket);
    });
    // Without a listener Node closes the connection of a CONNECT without a response.
    server.on('connect', (req) => {
      void this.#services?.parserErrors.respondToConnect(req);
    });
    this.#connections.watch(server, this.#connectionsMax);
    // By default Node silently drops the headers after the 2,000th, a second `Authorization` for instance.
    server.maxHeadersCount = 0;
    this.setHttpServer(server);
  }

  #handler(express: ExpressHandler) {
    return (req: IncomingMessage, res: ServerResponse): void => {
      if (this.#connections.isClosing(req.socket)) {
        return;
      }
      const requestId = requestIdFrom(req.headers['x-request-id']);
      req.headers['x-request-id'] = requestId;
      if (isApiPath(req.url ?? '') && !isPreflight(req)) {
        deferHeaders(res, [[REQUEST_ID_HEADER, requestId]]);
      } else {
        res.setHeader(REQUEST_ID_HEADER, requestId);
      }
      const span = this.#tracing?.startRequest(req);
      this.#connections.begin(req, res, this.#services?.observer.observe(req, res, requestId, span));
      if (span === undefined) {
        this.#handle(req, res, express);
      } else {
        span.run(() => {
          this.#handle(req, res, express);
        });
      }
    };
  }

  #handle(req: IncomingMessage, res: ServerResponse, express: ExpressHandler): void {
    const cors = this.#cors;
    const error = framingError(req);
    if (error !== undefined) {
      this.#connections.closeAfterResponse(req, res);
      void this.#reject(req, res, error);
    } else if (isPreflight(req)) {
      this.#respondToPreflight(req, res);
    } else if (cors === undefined || req.method === 'OPTIONS') {
      this.#route(req, res, express);
    } else {
      cors(req, res, () => {
        this.#route(req, res, express);
      });
    }
  }

  /** Rejects a request before routing; limits and key come first where they apply. */
  async #reject(req: IncomingMessage, res: ServerResponse, error: DomainError): Promise<void> {
    const rejection = isApiPath(req.url ?? '') ? await this.#services?.admission.check(req, res) : undefined;
    const { code, message } = rejection?.error instanceof DomainError ? rejection.error : error;
    sendError(res, code, message);
  }

  /** A preflight carries no key: were it counted, a page's requests with a key would exhaust the limit of its address. */
  #respondToPreflight(req: IncomingMessage, res: ServerResponse): void {
    const limits =
      this.#services !== undefined && isApiPath(req.url ?? '')
        ? rateLimitHeaders(this.#services.admission.unconsumed())
        : [];
    for (const [name, value] of [...limits, ...API_SECURITY_HEADERS]) {
      res.setHeader(name, value);
    }
    if (this.#cors === undefined) {
      // Without CORS headers the browser sends nothing.
      res.writeHead(204).end();
    } else {
      this.#cors(req, res, () => undefined);
    }
  }

  #route(req: IncomingMessage, res: ServerResponse, express: ExpressHandler): void {
    const next = (): void => {
      const target = originForm(req.url ?? '');
      const reject = (): void => {
        sendError(res, 'bad_request', 'The request target is not a valid URL.');
      };
      if (target === undefined) {
        reject();
        return;
      }
      req.url = withLiteralPercents(target);
      // Express calls `reject` only for a target that it cannot parse: no route gets it, not even that for errors.
      express(req, res, reject);
    };
    if (this.#services?.rejectEarly === true) {
      rejectEarly(req, res, this.#services.admission, next);
    } else {
      next();
    }
  }
}
