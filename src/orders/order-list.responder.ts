import { Inject, Injectable } from '@nestjs/common';
import type { Request, Response } from 'express';
import { CONFIG, type Config } from '../config/config.js';
import { toServiceError } from '../database/postgres-errors.js';
import { Metrics } from '../metrics/metrics.js';
import { writeHead } from '../http/response.js';
import { API_SECURITY_HEADERS, type HeaderPair } from '../http/headers.js';
import { TRACING, type Tracing } from '../tracing/tracing.js';
import { etagOf, matchesEtag } from './etag.js';
import { OrderListEncoder } from './order-list-encoder.js';
import { type OpenOrderList, OrderListReader } from './order-list.reader.js';
import { ResponseBody, ClientDisconnected } from './response-body.js';
import { SnapshotReader } from './snapshot.reader.js';

/** What is written at once. */
const BUFFER_BYTES = 65_536;

/** Answers the list operation: 304 where the client has the current list, the headers alone to HEAD, all orders to GET. */
@Injectable()
export class OrderListResponder {
  readonly #stallMs: number;

  constructor(
    private readonly reader: OrderListReader,
    private readonly snapshots: SnapshotReader,
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
      const etag = etagOf(await this.snapshots.current());
      if (matchesEtag(ifNoneMatch, etag)) {
        startAnswer(res, 304, etag).end();
        return;
      }
      if (req.method === 'HEAD') {
        startAnswer(res, 200, etag).end();
        return;
      }
    }
    const gzip = req.acceptsEncodings('gzip', 'identity') === 'gzip';
    await this.tracing.statement({ operation: 'COPY', table: 'orders' }, async () => {
      await this.#send(await this.reader.open(), res, gzip);
    });
  }

  async #send(list: OpenOrderList, res: Response, gzip: boolean): Promise<void> {
    startAnswer(res, 200, etagOf(list.snapshot), gzip ? [GZIP_ENCODING] : []);
    const body = new ResponseBody(res, this.#stallMs, gzip);
    let end: 'complete' | 'lost_reader' | 'failed' = 'failed';
    this.metrics.listsRunning.inc();
    try {
      // Buffers come back when they have been written: a long list uses a few, and not one after the other for the
      // garbage collector to find.
      const spare: Buffer[] = [];
      const encoder = new OrderListEncoder(
        (bytes) => {
          this.metrics.listBytes.inc(bytes.length);
          body.write(bytes, () => spare.push(Buffer.from(bytes.buffer)));
        },
        () => spare.pop() ?? Buffer.allocUnsafeSlow(BUFFER_BYTES),
      );
      for await (const chunk of list.rows) {
        encoder.write(chunk);
        await body.ready();
      }
      encoder.end();
      this.metrics.listRows.inc(encoder.rows);
      end = 'complete';
    } catch (error) {
      end = error instanceof ClientDisconnected ? 'lost_reader' : 'failed';
      abandon(error, res);
    } finally {
      await list.close(end === 'complete');
      this.metrics.listsRunning.dec();
      this.metrics.lists.inc({ end });
    }
    await body.end().catch((error: unknown) => {
      abandon(error, res);
    });
  }
}

function startAnswer(res: Response, status: 200 | 304, etag: string, more: readonly HeaderPair[] = []): Response {
  // Pages of other origins have added `Origin` already where they are let in.
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

/**
 * Cuts the connection of a list that cannot be completed: ended properly, it would look like the whole list.
 * @throws whatever was not the reader's doing, for the exception filter to log
 */
function abandon(error: unknown, res: Response): void {
  res.destroy();
  if (!(error instanceof ClientDisconnected)) {
    throw toServiceError(error);
  }
}
