import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express } from 'express';
import { DomainError } from '../errors/domain-error.js';
import { API_SECURITY_HEADERS, type HeaderPair } from '../http/headers.js';
import type { AdmissionService } from '../admission/admission.service.js';
import { rateLimitHeaders } from '../rate-limit/headers.js';
import { rejectionOf } from '../admission/rejection.js';
import { rejectEarly } from './early-rejection.js';
import { isApiPath, withLiteralPercents } from '../http/api-path.js';
import { allClosed, Connections } from './connections.js';
import { corsFor, type CorsHandler, isPreflight } from './cors.js';
import { expressMessages } from './express-messages.js';
import { framingError } from './framing.js';
import { respondToParserError } from './parser-errors.js';
import { sendError, deferHeaders } from '../http/response.js';
import { REQUEST_ID_HEADER, requestIdFrom } from '../http/request-id.js';
import type { RequestObserver } from './request-observer.js';
import { endConnection, rawErrorResponse } from './raw-response.js';
import type { Tracing } from '../tracing/tracing.js';

/** Milliseconds and bytes; see `docs/operations.md` for why these. */
const SERVER_OPTIONS = {
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  // Above the 60 s after which common balancers drop an idle connection, so that they never reuse one that we closed.
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 5_000,
  maxHeaderSize: 16_384,
  // Node would answer a request without Host with an empty body; we check it ourselves.
  requireHostHeader: false,
} as const;

export interface ServiceHttpOptions {
  /** Origins of web pages that may call the API; none by default. */
  readonly corsOrigins?: readonly string[];
  /** Connections that are open at once; further ones are closed unheard. Without a bound by default. */
  readonly connectionsMax?: number;
  /** Makes a span of every request; nothing does by default. */
  readonly tracing?: Tracing | undefined;
}

/**
 * Express behind an HTTP server of our own: with timeouts that Nest does not expose, the error shape for what Node's
 * parser refuses, and the gate in front. Without an admission service (see {@link useAdmission}) the gate stands open.
 */
export class ServiceHttpAdapter extends ExpressAdapter {
  #admission: AdmissionService | undefined;
  #rejectsEarly = false;
  #observer: RequestObserver | undefined;
  #addLastRoutes: (() => void) | undefined;
  readonly #cors: CorsHandler | undefined;
  readonly #connectionsMax: number | undefined;
  readonly #tracing: Tracing | undefined;
  readonly #connections = new Connections();

  constructor(options: ServiceHttpOptions = {}) {
    const app = express();
    // Settings have to stand before the first route: Express makes its router from them.
    app.enable('case sensitive routing').enable('strict routing');
    app.disable('x-powered-by').disable('etag').disable('query parser');
    super(app);
    this.#cors = corsFor(options.corsOrigins ?? []);
    this.#connectionsMax = options.connectionsMax;
    this.#tracing = options.tracing;
  }

  /** Opens for business: from here on the parser's errors are counted and, unless told otherwise, the gate refuses. */
  useAdmission(admission: AdmissionService, { rejectEarly }: { rejectEarly: boolean }): void {
    this.#admission = admission;
    this.#rejectsEarly = rejectEarly;
  }

  /** Tells an observer of every request from here on. */
  useObserver(observer: RequestObserver): void {
    this.#observer = observer;
  }

  /** Adds routes behind those of the operations: Express tries one after the other, and most requests are operations. */
  addLastRoutes(add: () => void): void {
    this.#addLastRoutes = add;
  }

  /** Nest calls this when every controller has its routes. */
  override setNotFoundHandler(...handler: Parameters<ExpressAdapter['setNotFoundHandler']>): unknown {
    this.#addLastRoutes?.();
    return super.setNotFoundHandler(...handler) as unknown;
  }

  /** From here on every answer tells its client to close the connection. */
  startDraining(): void {
    this.#connections.startDraining();
  }

  override initHttpServer(): void {
    const app = this.getInstance<Express>();
    const handle = this.#handler(app);
    const server = createServer({ ...SERVER_OPTIONS, ...expressMessages(app) }, handle);
    if (this.#connectionsMax !== undefined) {
      server.maxConnections = this.#connectionsMax;
    }
    // Without a listener Node answers an unknown expectation with an empty 417.
    server.on('checkExpectation', handle);
    // No operation takes a body, so nobody is asked to send one: the answer is final at once (RFC 9110 section 10.1.1). Node's
    // own `100 Continue` would end up inside the answer of a pipelined request.
    server.on('checkContinue', handle);
    server.on('clientError', (error, socket) => {
      if (this.#admission === undefined) {
        socket.destroy();
      } else {
        // Typed as a Duplex for HTTP over anything; over `listen()` it is a socket.
        void respondToParserError(
          error,
          socket as Socket,
          this.#admission,
          this.#connections.pendingResponsesOn(socket),
        );
      }
    });
    this.#connections.watch(server);
    // Without a listener Node closes the connection of a CONNECT without a word.
    server.on('connect', (_req, socket) => {
      // From here on Node listens for nothing on this socket: a reset that nobody heard would end the process.
      socket.on('error', () => undefined);
      void allClosed(this.#connections.pendingResponsesOn(socket)).then(() => {
        endConnection(socket, rawErrorResponse('bad_request', 'This service is no proxy.', []));
      });
    });
    // By default Node drops what comes after the 2,000th header without a word, a second `Authorization` for instance.
    server.maxHeadersCount = 0;
    this.setHttpServer(server);
  }

  #handler(express: RequestListener) {
    return (req: IncomingMessage, res: ServerResponse): void => {
      if (this.#connections.isClosingAfterResponse(req)) {
        return;
      }
      const requestId = requestIdFrom(req.headers['x-request-id']);
      if (isApiPath(req.url ?? '')) {
        deferHeaders(res, [[REQUEST_ID_HEADER, requestId]]);
      } else {
        res.setHeader(REQUEST_ID_HEADER, requestId);
      }
      const span = this.#tracing?.startRequest(req);
      this.#connections.begin(res, this.#observer?.observe(req, res, requestId, span));
      if (span === undefined) {
        this.#handle(req, res, express);
      } else {
        span.run(() => {
          this.#handle(req, res, express);
        });
      }
    };
  }

  #handle(req: IncomingMessage, res: ServerResponse, express: RequestListener): void {
    const cors = this.#cors;
    const fault = framingError(req);
    if (fault !== undefined) {
      this.#connections.closeAfterResponse(req, res);
      void this.#refuse(req, res, fault);
    } else if (cors === undefined || (req.method === 'OPTIONS' && !isPreflight(req))) {
      this.#route(req, res, express);
    } else if (isPreflight(req)) {
      void this.#answerPreflight(req, res, cors);
    } else {
      cors(req, res, () => {
        this.#route(req, res, express);
      });
    }
  }

  /** Refuses a request that no route sees; limits and key come first where they apply. */
  async #refuse(req: IncomingMessage, res: ServerResponse, error: DomainError): Promise<void> {
    const rejection =
      this.#admission !== undefined && isApiPath(req.url ?? '') ? await this.#admission.check(req, res) : undefined;
    const { code, message } = rejection?.error instanceof DomainError ? rejection.error : error;
    sendError(res, code, message);
  }

  /** A preflight has no key and needs none, but it counts like every request without one. */
  async #answerPreflight(req: IncomingMessage, res: ServerResponse, cors: CorsHandler): Promise<void> {
    if (this.#admission !== undefined && isApiPath(req.url ?? '')) {
      const admitted = await this.#admission.admit(req);
      const headers = rateLimitHeaders(admitted.verdict);
      const rejection = rejectionOf(admitted);
      if (rejection?.by === 'limits' && rejection.error instanceof DomainError) {
        deferHeaders(res, headers);
        sendError(res, rejection.error.code, rejection.error.message);
        return;
      }
      set(res, headers);
    }
    set(res, API_SECURITY_HEADERS);
    cors(req, res, () => undefined);
  }

  #route(req: IncomingMessage, res: ServerResponse, express: RequestListener): void {
    const next = (): void => {
      req.url = withLiteralPercents(req.url ?? '/');
      express(req, res);
    };
    if (this.#rejectsEarly && this.#admission !== undefined) {
      rejectEarly(req, res, this.#admission, next);
    } else {
      next();
    }
  }
}

/** For an answer that a library ends, with the headers that are set. */
function set(res: ServerResponse, headers: readonly HeaderPair[]): void {
  for (const [name, value] of headers) {
    res.setHeader(name, value);
  }
}
