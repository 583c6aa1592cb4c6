import type { IncomingMessage } from 'node:http';
import { Inject, Injectable } from '@nestjs/common';
import type { Request, Response } from 'express';
import { FairSlots } from '../../common/fair-slots.js';
import { CONFIG, type Config } from '../../config/config.js';
import { toServiceError } from '../../database/postgres-errors.js';
import { DomainError } from '../../errors/domain-error.js';
import { Metrics } from '../../metrics/metrics.js';
import { LIST_ROUTE } from '../../http/paths.js';
import type { HeaderPair } from '../../http/request-context.js';
import { abortResponse, API_SECURITY_HEADERS, writeHead } from '../../http/response.js';
import { TRACING, type Tracing } from '../../tracing/tracing.js';
import { CorruptChunk } from './deflate.js';
import { etagOf, matchesEtag } from './etag.js';
import { type CurrentName, type ListRequest, type OrderList, OrderListReader } from './order-list.reader.js';
import { ClientDisconnected, ResponseBody } from './response-body.js';
import { writeList } from './write-list.js';

/** Uncompressed lists that are sent at once: each holds two chunks of 1.5 MB that no other list uses. */
const UNCOMPRESSED_MAX = 64;
/** How long an uncompressed list waits when this number is reached. Milliseconds. */
const UNCOMPRESSED_TIMEOUT_MS = 1_000;

/** Responds to the list operation: 304 if the client has the current list, headers only to HEAD, all orders to GET. */
@Injectable()
export class OrderListResponder {
  readonly #stallMs: number;
  readonly #uncompressed = new FairSlots(UNCOMPRESSED_MAX, {
    ms: UNCOMPRESSED_TIMEOUT_MS,
    error: () =>
      new DomainError(
        'service_unavailable',
        'Too many uncompressed order lists are being sent; send "Accept-Encoding: gzip" or retry shortly.',
      ),
  });
  /** What was read ahead for requests. */
  readonly #ahead = new WeakMap<IncomingMessage, CurrentName>();

  constructor(
    private readonly reader: OrderListReader,
    @Inject(CONFIG) config: Config,
    private readonly metrics: Metrics,
    @Inject(TRACING) private readonly tracing: Pick<Tracing, 'statement'>,
  ) {
    this.#stallMs = config.list.stallSeconds * 1_000;
  }

  /**
   * Begins to read the version for a request that is being counted in Redis. Reading changes nothing, and calls share their
   * queries, so a request that is then rejected costs little. Never throws.
   */
  readAhead(req: IncomingMessage): void {
    if (req.url === LIST_ROUTE && (req.method === 'GET' || req.method === 'HEAD')) {
      this.#ahead.set(req, this.reader.readAhead());
    }
  }

  /**
   * @param caller who shares what is bounded fairly with others
   * @throws {DomainError} `service_unavailable`
   */
  async respond(req: Request, res: Response, caller: string): Promise<void> {
    const current = this.#ahead.get(req) ?? this.reader.readAhead();
    const tags = req.headers['if-none-match'];
    if (req.method === 'HEAD' || tags !== undefined) {
      const name = await this.reader.nameFor({ current, caller });
      const isUnchanged = name !== undefined && matchesEtag(tags, etagOf(name));
      if (isUnchanged || req.method === 'HEAD') {
        startResponse(res, isUnchanged ? 304 : 200, name).end();
        return;
      }
    }
    const isCompressed = req.acceptsEncodings('gzip', 'identity') === 'gzip';
    const request: ListRequest = {
      caller,
      current,
      isCompressed,
      // The connection: a response that waits behind another one could not be ended at once.
      cut: () => {
        req.socket.destroy();
      },
    };
    await (isCompressed ? this.#readAndSend(res, request) : this.#sendUncompressed(res, request));
  }

  async #sendUncompressed(res: Response, request: ListRequest): Promise<void> {
    await this.#uncompressed.run(request.caller, (slot) => {
      slot.yieldBy(request.cut);
      return this.#readAndSend(res, request);
    });
  }

  async #readAndSend(res: Response, request: ListRequest): Promise<void> {
    await this.tracing.statement({ operation: 'COPY', table: 'orders' }, async () => {
      await this.#send(await this.reader.open(request), res, request.isCompressed);
    });
  }

  async #send(list: OrderList, res: Response, isCompressed: boolean): Promise<void> {
    let end: 'complete' | 'lost_reader' | 'failed' = 'failed';
    try {
      this.metrics.listsRunning.inc();
      startResponse(res, 200, list.version, isCompressed ? [GZIP_ENCODING] : []);
      this.metrics.listBytes.inc(await writeList(list.chunks, new ResponseBody(res, this.#stallMs), isCompressed));
      end = 'complete';
    } catch (error) {
      end = error instanceof ClientDisconnected ? 'lost_reader' : 'failed';
      if (error instanceof CorruptChunk) {
        this.reader.clearCache();
      }
      abortResponse(res);
      // Errors that the client did not cause are for the exception filter to log.
      if (!(error instanceof ClientDisconnected)) {
        throw toServiceError(error);
      }
    } finally {
      list.close();
      this.metrics.listsRunning.dec();
      this.metrics.lists.labels(end).inc();
    }
  }
}

/** @param version see {@link OrderList.version} */
function startResponse(
  res: Response,
  status: 200 | 304,
  version: string | undefined,
  more: readonly HeaderPair[] = [],
): Response {
  // The CORS handler may have set `Vary: Origin`.
  res.vary('Authorization, Accept-Encoding');
  const vary = res.getHeader('Vary');
  res.removeHeader('Vary');
  writeHead(res, status, [
    ...(status === 200 ? [JSON_TYPE] : []),
    ...(version === undefined ? [] : [['ETag', etagOf(version)] as const]),
    ['Cache-Control', 'private, no-cache'],
    ['Vary', String(vary)],
    ...API_SECURITY_HEADERS,
    ...more,
  ]);
  return res;
}

const JSON_TYPE: HeaderPair = ['Content-Type', 'application/json'];
const GZIP_ENCODING: HeaderPair = ['Content-Encoding', 'gzip'];
