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

/** Size of the buffers that are written. */
const BUFFER_BYTES = 65_536;

/** Responds to the list operation: 304 if the client has the current list, headers only to HEAD, all orders to GET. */
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
        startResponse(res, 304, etag).end();
        return;
      }
      if (req.method === 'HEAD') {
        startResponse(res, 200, etag).end();
        return;
      }
    }
    const gzip = req.acceptsEncodings('gzip', 'identity') === 'gzip';
    await this.tracing.statement({ operation: 'COPY', table: 'orders' }, async () => {
      await this.#send(await this.reader.open(), res, gzip);
    });
  }

  async #send(list: OpenOrderList, res: Response, gzip: boolean): Promise<void> {
    startResponse(res, 200, etagOf(list.snapshot), gzip ? [GZIP_ENCODING] : []);
    const body = new ResponseBody(res, this.#stallMs, gzip);
    let end: 'complete' | 'lost_reader' | 'failed' = 'failed';
    let complete = false;
    this.metrics.listsRunning.inc();
    try {
      // Buffers are reused once they have been written, so that a long list allocates only a few.
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
      complete = true;
      // All rows are read: a slow client no longer needs the database.
      await list.close(true);
      await body.end();
      end = 'complete';
    } catch (error) {
      end = error instanceof ClientDisconnected ? 'lost_reader' : 'failed';
      abort(error, res);
    } finally {
      if (!complete) {
        await list.close(false);
      }
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

/**
 * Closes the connection of a list that cannot be completed: ended normally, it would look complete. The response stays
 * unfinished (`writableFinished` is false), which is how observers recognise it.
 * @throws an error that the client did not cause, for the exception filter to log
 */
function abort(error: unknown, res: Response): void {
  res.destroy();
  if (!(error instanceof ClientDisconnected)) {
    throw toServiceError(error);
  }
}
