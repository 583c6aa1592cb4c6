import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { AdmissionService } from '../admission/admission.service.js';
import { logBackgroundError } from '../common/in-background.js';
import { isPromise } from '../common/when-ready.js';
import { isApiPath, originForm, withLiteralPercents } from '../http/paths.js';
import { RequestContext } from '../http/request-context.js';
import { API_SECURITY_HEADERS, REQUEST_ID_HEADER, sendError, writeErrorResponse } from '../http/response.js';
import { rateLimitHeaders } from '../rate-limit/headers.js';
import type { OrderListResponder } from '../orders/list/order-list.responder.js';
import type { Tracing } from '../tracing/tracing.js';
import type { Connections } from './connections.js';
import { type CorsHandler, isPreflight } from './cors.js';
import { endOfTurn } from './end-of-turn.js';
import type { AllExceptionsFilter } from './exception.filter.js';
import { framingError } from './framing.js';
import { ParserErrors } from './parser-errors.js';
import type { RequestObserver } from './request-observer.js';

/** @param next called for a request that Express does not respond to */
export type ExpressHandler = (req: IncomingMessage, res: ServerResponse, next: () => void) => void;

/** What the module of the application provides once it has been initialised. */
export interface RequestServices {
  readonly admission: AdmissionService;
  readonly observer: RequestObserver;
  readonly errors: AllExceptionsFilter;
  readonly list: Pick<OrderListResponder, 'readAhead'>;
  /** Starts a span for every request; none by default. */
  readonly tracing?: Tracing | undefined;
}

/**
 * Handles a request from Node's HTTP server until Express gets it: context, framing, CORS, then limits and key. Rejecting
 * a request here costs a fraction of what Express and the guards would cost. An error ends its request, never the process.
 */
export class RequestHandler {
  readonly #parserErrors: ParserErrors;

  constructor(
    private readonly express: ExpressHandler,
    private readonly connections: Connections,
    private readonly services: RequestServices,
    /** Undefined when no page of another origin may call the API. */
    private readonly cors: CorsHandler | undefined,
  ) {
    this.#parserErrors = new ParserErrors(connections, services.admission, services.observer);
  }

  /** Call before the server listens. */
  listenTo(server: Server): void {
    const handle = this.#handle.bind(this);
    server.on('request', handle);
    // Without a listener Node responds to an unknown expectation with an empty 417.
    server.on('checkExpectation', handle);
    // No operation takes a body, so the final response comes at once (RFC 9110 section 10.1.1). Node's own
    // `100 Continue` could end up inside the response to an earlier pipelined request.
    server.on('checkContinue', handle);
    server.on('clientError', (error, socket) => {
      // Typed as a Duplex for HTTP over anything; over `listen()` it is a socket.
      this.#parserErrors.respond(error, socket as Socket).catch(closing(socket));
    });
    // Without a listener Node closes the connection of a CONNECT without a response.
    server.on('connect', (req) => {
      this.#parserErrors.respondToConnect(req).catch(closing(req.socket));
    });
  }

  #handle(req: IncomingMessage, res: ServerResponse): void {
    if (this.connections.isClosing(req.socket)) {
      this.connections.ignore(req.socket);
      return;
    }
    const { errors, observer, tracing } = this.services;
    const context = RequestContext.begin(req);
    this.connections.begin(req, res, () => {
      observer.ended(req, res, context);
    });
    const fail = (error: unknown): void => {
      errors.respond(error, req, res);
    };
    const respond = (failure?: unknown): void => {
      this.#respond(req, res, context, failure).catch(fail);
    };
    try {
      context.span = tracing?.startRequest(req);
      if (context.span !== undefined) {
        context.span.run(respond);
        return;
      }
    } catch (error) {
      respond(error);
      return;
    }
    respond();
  }

  /** @param failure an error that the response must report, after limits and key */
  async #respond(req: IncomingMessage, res: ServerResponse, context: RequestContext, failure: unknown): Promise<void> {
    const isApi = isApiPath(context.target);
    const isPreflightRequest = isPreflight(req);
    if (isApi && !isPreflightRequest) {
      context.deferHeaders([[REQUEST_ID_HEADER, context.id]]);
    } else {
      res.setHeader(REQUEST_ID_HEADER, context.id);
    }
    const invalid = framingError(req);
    if (invalid !== undefined) {
      this.connections.closeAfterResponse(req, res);
    } else if (isPreflightRequest) {
      this.#respondToPreflight(req, res, isApi);
      return;
    } else if (this.cors !== undefined && req.method !== 'OPTIONS') {
      this.cors(req, res, () => undefined);
    }
    const decided = isApi ? this.services.admission.admit(req, context) : undefined;
    if (isPromise(decided)) {
      this.services.list.readAhead(req);
    }
    const rejection = isPromise(decided) ? await decided : decided;
    if (rejection?.response !== undefined) {
      await endOfTurn();
      writeErrorResponse(res, rejection.response);
    } else if (rejection !== undefined || invalid !== undefined || failure !== undefined) {
      throw rejection?.error ?? invalid ?? failure;
    } else {
      this.#route(req, res);
    }
  }

  /** A preflight carries no key: were it counted, a page's requests with a key would exhaust the limit of its address. */
  #respondToPreflight(req: IncomingMessage, res: ServerResponse, isApi: boolean): void {
    const limits = isApi ? rateLimitHeaders(this.services.admission.unconsumed()) : [];
    for (const [name, value] of [...limits, ...API_SECURITY_HEADERS]) {
      res.setHeader(name, value);
    }
    if (this.cors === undefined) {
      // Without CORS headers the browser sends nothing.
      res.writeHead(204).end();
    } else {
      this.cors(req, res, () => undefined);
    }
  }

  #route(req: IncomingMessage, res: ServerResponse): void {
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
    this.express(req, res, reject);
  }
}

function closing(socket: Duplex): (error: unknown) => void {
  return (error) => {
    logBackgroundError(error);
    socket.destroy();
  };
}
