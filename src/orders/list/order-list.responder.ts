import { Inject, Injectable } from '@nestjs/common';
import type { Request, Response } from 'express';
import { Semaphore } from '../../common/semaphore.js';
import { CONFIG, type Config } from '../../config/config.js';
import { toServiceError } from '../../database/postgres-errors.js';
import { DomainError } from '../../errors/domain-error.js';
import { Metrics } from '../../metrics/metrics.js';
import { abortResponse, writeHead } from '../../http/response.js';
import { API_SECURITY_HEADERS, type HeaderPair } from '../../http/headers.js';
import { TRACING, type Tracing } from '../../tracing/tracing.js';
import { CorruptBlock } from './deflate.js';
import { etagOf, matchesEtag } from './etag.js';
import { ListVersionReader } from './list-version.reader.js';
import { type OrderList, OrderListReader } from './order-list.reader.js';
import { ClientDisconnected, ResponseBody } from './response-body.js';
import { writeList } from './write-list.js';

/**
 * Maximum number of concurrent uncompressed lists. Each holds up to 4 MiB of decompressed blocks while its client reads;
 * compressed lists share the blocks of the cache.
 */
const UNCOMPRESSED_MAX = 64;
/** How long an uncompressed list waits when this number is reached. Milliseconds. */
const UNCOMPRESSED_TIMEOUT_MS = 1_000;

/** Responds to the list operation: 304 if the client has the current list, headers only to HEAD, all orders to GET. */
@Injectable()
export class OrderListResponder {
  readonly #stallMs: number;
  readonly #uncompressed = new Semaphore(UNCOMPRESSED_MAX);

  constructor(
    private readonly versions: ListVersionReader,
    private readonly reader: OrderListReader,
    @Inject(CONFIG) config: Config,
    private readonly metrics: Metrics,
    @Inject(TRACING) private readonly tracing: Pick<Tracing, 'statement'>,
  ) {
    this.#stallMs = config.list.stallSeconds * 1_000;
  }

  /** @throws {DomainError} `service_unavailable` */
  async respond(req: Request, res: Response): Promise<void> {
    const ifNoneMatch = req.headers['if-none-match'];
    if (ifNoneMatch !== undefined || req.method === 'HEAD') {
      const etag = etagOf(await this.versions.currentName());
      if (matchesEtag(ifNoneMatch, etag)) {
        startResponse(res, 304, etag).end();
        return;
      }
      if (req.method === 'HEAD') {
        startResponse(res, 200, etag).end();
        return;
      }
    }
    if (req.acceptsEncodings('gzip', 'identity') === 'gzip') {
      await this.#readAndSend(res, true);
      return;
    }
    if (!(await this.#uncompressed.acquireWithin(UNCOMPRESSED_TIMEOUT_MS))) {
      throw new DomainError(
        'service_unavailable',
        'Too many uncompressed order lists are being sent; send "Accept-Encoding: gzip" or retry shortly.',
      );
    }
    try {
      await this.#readAndSend(res, false);
    } finally {
      this.#uncompressed.release();
    }
  }

  async #readAndSend(res: Response, gzip: boolean): Promise<void> {
    await this.tracing.statement({ operation: 'COPY', table: 'orders' }, async () => {
      await this.#send(await this.reader.open(gzip), res, gzip);
    });
  }

  async #send(list: OrderList, res: Response, gzip: boolean): Promise<void> {
    let end: 'complete' | 'lost_reader' | 'failed' = 'failed';
    this.metrics.listsRunning.inc();
    try {
      startResponse(res, 200, etagOf(list.version), gzip ? [GZIP_ENCODING] : []);
      this.metrics.listBytes.inc(await writeList(list.parts, new ResponseBody(res, this.#stallMs), gzip));
      end = 'complete';
    } catch (error) {
      end = error instanceof ClientDisconnected ? 'lost_reader' : 'failed';
      if (error instanceof CorruptBlock) {
        this.reader.clearCache();
      }
      abortResponse(res);
      // Errors that the client did not cause are for the exception filter to log.
      if (!(error instanceof ClientDisconnected)) {
        throw toServiceError(error);
      }
    } finally {
      await list.close();
      this.metrics.listsRunning.dec();
      this.metrics.lists.inc({ end });
    }
  }
}

function startResponse(res: Response, status: 200 | 304, etag: string, more: readonly HeaderPair[] = []): Response {
  // The CORS handler may have set `Vary: Origin`.
  res.vary('Authorization, Accept-Encoding');
  const vary = res.getHeader('Vary');
  res.removeHeader('Vary');
  writeHead(res, status, [
    ...(status === 200 ? [JSON_TYPE] : []),
    ['ETag', etag],
    ['Cache-Control', 'private, no-cache'],
    ['Vary', String(vary)],
    ...API_SECURITY_HEADERS,
    ...more,
  ]);
  return res;
}

const JSON_TYPE: HeaderPair = ['Content-Type', 'application/json'];
const GZIP_ENCODING: HeaderPair = ['Content-Encoding', 'gzip'];
