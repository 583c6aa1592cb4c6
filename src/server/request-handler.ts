import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { AdmissionService } from '../admission/admission.service.js';
import { Rejection } from '../admission/rejection.js';
import { logBackgroundError } from '../common/in-background.js';
import { CONFIG, type Config } from '../config/config.js';
import { DomainError } from '../errors/domain-error.js';
import { isApiPath, originForm, withLiteralPercents } from '../http/paths.js';
import { REQUEST_ID_HEADER, RequestContext } from '../http/request-context.js';
import { writeErrorResponse } from '../http/response.js';
import { OrderListResponder } from '../orders/list/order-list.responder.js';
import { rateLimitHeaders } from '../rate-limit/headers.js';
import { requests } from '../tracing/tracing.js';
import { Cors, isPreflight } from './cors.js';
import { AllExceptionsFilter } from './exception.filter.js';
import { framingError } from './framing.js';
import { ParserErrors } from './parser-errors.js';
import { RequestObserver } from './request-observer.js';
import type { ServiceHttpAdapter } from './service-http-adapter.js';

/**
 * Handles a request from Node's HTTP server until Express gets it: context, framing, CORS, then limits and key. Rejecting
 * a request here costs a fraction of what Express and the guards would cost. An error ends its request, never the process.
 */
@Injectable()
export class RequestHandler implements OnModuleInit {
  readonly #adapter: ServiceHttpAdapter;
  readonly #cors: Cors;

  constructor(
    { httpAdapter }: HttpAdapterHost<ServiceHttpAdapter>,
    @Inject(CONFIG) { corsOrigins }: Config,
    private readonly admission: AdmissionService,
    private readonly list: OrderListResponder,
    private readonly observer: RequestObserver,
    private readonly errors: AllExceptionsFilter,
  ) {
    this.#adapter = httpAdapter;
    this.#cors = new Cors(corsOrigins);
  }

  onModuleInit(): void {
    const server: Server = this.#adapter.getHttpServer();
    const handle = this.#handle.bind(this);
    server.on('request', handle);
    // Without a listener Node responds to an unknown expectation with an empty 417.
    server.on('checkExpectation', handle);
    // No operation takes a body, so the final response comes at once (RFC 9110 section 10.1.1). Node's own
    // `100 Continue` could end up inside the response to an earlier pipelined request.
    server.on('checkContinue', handle);
    const parserErrors = new ParserErrors(this.#adapter.connections, this.admission, this.observer, this.errors);
    server.on('clientError', (error, socket) => {
      // Typed as a Duplex for HTTP over anything; over `listen()` it is a socket.
      parserErrors.respond(error, socket as Socket).catch((failure: unknown) => {
        logBackgroundError(failure);
        socket.destroy();
      });
    });
  }

  #handle(req: IncomingMessage, res: ServerResponse): void {
    if (!this.#adapter.connections.begin(req, res)) {
      return;
    }
    const context = new RequestContext(req);
    // Also when its connection is lost.
    res.once('close', () => {
      this.observer.ended(res, context);
    });
    // In the span of the request, if there is one.
    requests.start.runStores(context, () => {
      this.#respond(req, res, context).catch((error: unknown) => {
        this.errors.respond(error, req, res);
      });
    });
  }

  async #respond(req: IncomingMessage, res: ServerResponse, context: RequestContext): Promise<void> {
    const isApi = isApiPath(context.target);
    const isPreflightRequest = isPreflight(req);
    if (!isApi || isPreflightRequest) {
      // Not everything there writes the deferred headers.
      res.setHeader(REQUEST_ID_HEADER, context.id);
    }
    const invalid = framingError(req);
    if (invalid !== undefined) {
      this.#adapter.connections.closeAfterResponse(req, res);
    } else if (isPreflightRequest) {
      // It carries no key: were it counted, a page's requests with a key would exhaust the limit of its address.
      this.#cors.respondToPreflight(req, res, isApi ? rateLimitHeaders(this.admission.unconsumed()) : []);
      return;
    }
    this.#cors.addHeaders(req, res);
    const decided = isApi ? this.admission.admit(req, context) : undefined;
    // Not decided yet: a round trip is needed. Does nothing for other routes.
    if (isApi && context.admission === undefined) {
      this.list.readAhead(req);
    }
    const failure = (await decided) ?? invalid;
    if (failure instanceof Rejection) {
      await endOfTurn();
      writeErrorResponse(res, failure.response);
    } else if (failure !== undefined) {
      throw failure;
    } else {
      this.#route(req, res);
    }
  }

  #route(req: IncomingMessage, res: ServerResponse): void {
    const invalid = (): DomainError => new DomainError('bad_request', 'The request target is not a valid URL.');
    const target = originForm(req.url ?? '');
    if (target === undefined) {
      throw invalid();
    }
    req.url = withLiteralPercents(target);
    const express = this.#adapter.getInstance<ExpressHandler>();
    express(req, res, () => {
      // Only for a target that Express cannot parse: no route gets it, not even that for errors.
      this.errors.respond(invalid(), req, res);
    });
  }
}

type ExpressHandler = (req: IncomingMessage, res: ServerResponse, next: () => void) => void;

let turn: Promise<void> | undefined;

/**
 * Resolves at the end of this turn of the event loop, after all readable sockets have been read. Written one by one
 * between the reads, each rejection would wake its client, which costs more than the rest of it.
 */
function endOfTurn(): Promise<void> {
  turn ??= new Promise((resolve) => {
    setImmediate(() => {
      turn = undefined;
      resolve();
    });
  });
  return turn;
}
