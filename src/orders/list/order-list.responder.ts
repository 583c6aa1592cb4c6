import { Inject, Injectable } from '@nestjs/common';
import type { Request, Response } from 'express';
import { FairSlots } from '../../common/fair-slots.js';
import { CONFIG, type Config } from '../../config/config.js';
import { databaseCall } from '../../database/postgres-errors.js';
import { DomainError } from '../../errors/domain-error.js';
import { abortResponse, breakConnection } from '../../http/response.js';
import { Metrics } from '../../metrics/metrics.js';
import { traced } from '../../tracing/tracing.js';
import { UsageRecorder } from '../../usage/usage-recorder.js';
import { etagOf, matchesEtag } from './etag.js';
import { CorruptChunk } from './gzip.js';
import { ClientDisconnected, ListWriter } from './list-writer.js';
import { ListVersions } from './list-versions.js';
import { type ListRequest, OrderListReader } from './order-list.reader.js';

/** Compressed lists that are sent at once: each holds about 30 KB that no other list uses. */
const COMPRESSED_MAX = 2_048;
/** The same for uncompressed lists: two chunks of 1.5 MB. */
const UNCOMPRESSED_MAX = 64;
/** How long a list waits when this number is reached. Milliseconds. */
const SLOT_TIMEOUT_MS = 1_000;
/** Responses that begin in one turn of the event loop: many lists may wait for one version. */
const BEGUN_PER_TURN = 32;

/** Responds to the list operation: 304 if the client has the current list, headers only to HEAD, all orders to GET. */
@Injectable()
export class OrderListResponder {
  readonly #stallMs: number;
  readonly #begun = new FairSlots(BEGUN_PER_TURN);
  readonly #compressed = slotsFor(COMPRESSED_MAX, 'Too many order lists are being sent; retry shortly.');
  readonly #uncompressed = slotsFor(
    UNCOMPRESSED_MAX,
    'Too many uncompressed order lists are being sent; send "Accept-Encoding: gzip" or retry shortly.',
  );

  constructor(
    private readonly versions: ListVersions,
    private readonly reader: OrderListReader,
    @Inject(CONFIG) { list }: Config,
    private readonly usage: UsageRecorder,
    private readonly metrics: Metrics,
  ) {
    this.#stallMs = list.stallSeconds * 1_000;
  }

  /**
   * @param caller who shares what is bounded fairly with others
   * @throws {DomainError} `service_unavailable`
   */
  async respond(req: Request, res: Response, caller: string): Promise<void> {
    const name = await databaseCall(() => this.versions.currentName());
    // A later turn of the event loop when many responses have begun in this one, so that others go on between them.
    const turn = await this.#begun.acquire(caller);
    setImmediate(turn.release);
    const isUnchanged = name !== undefined && matchesEtag(req.headers['if-none-match'], etagOf(name));
    const isCompressed = req.acceptsEncodings('gzip', 'identity') === 'gzip';
    if (isUnchanged || req.method === 'HEAD') {
      startResponse(res, isUnchanged ? 304 : 200, name, isCompressed).end();
      if (req.method === 'GET') {
        this.usage.add(caller, { lists: 1 });
      }
      return;
    }
    let isCut = false;
    // The connection: a response that waits behind another one could not be ended at once. Not once the client has all of it.
    const cut = (): void => {
      if (!res.writableFinished && !req.socket.destroyed) {
        isCut = true;
        breakConnection(req);
      }
    };
    const request = { caller, isCompressed, cut, isLost: () => req.socket.destroyed };
    const run = (): Promise<void> =>
      databaseCall(() => this.#readAndSend(name, res, request)).catch((error: unknown) => {
        this.#end(res, error, isCut);
      });
    await traced({ operation: 'COPY', table: 'orders' }, run);
  }

  async #readAndSend(name: string | undefined, res: Response, request: ListRequest): Promise<void> {
    const { caller, isCompressed, cut } = request;
    const list = await this.reader.open(name, request);
    // Ends the wait for the next chunk, too.
    res.once('close', list.close);
    // Only now: from here on the list waits for nothing but its client, so it can give its slot up at once.
    const slots = isCompressed ? this.#compressed : this.#uncompressed;
    const sent = slots.run(caller, async (slot) => {
      slot.yieldBy(cut);
      startResponse(res, 200, list.version, isCompressed);
      this.metrics.listsRunning.inc();
      const writer = new ListWriter(res, isCompressed, this.#stallMs);
      const bytes = await writer.send(list.chunks).finally(() => {
        this.metrics.listsRunning.dec();
        this.usage.add(caller, { lists: 1, listBytes: writer.sentBytes });
      });
      this.metrics.listBytes.inc(bytes);
      this.metrics.lists.labels('complete').inc();
    });
    await sent.finally(list.close);
  }

  /** Ends a list that has failed. @throws {unknown} the error, unless the client is to blame: the exception filter logs it */
  #end(res: Response, error: unknown, isCut: boolean): void {
    if (error instanceof CorruptChunk) {
      this.reader.clearCache();
    }
    const isDisconnected = error instanceof ClientDisconnected;
    if (isDisconnected || res.headersSent) {
      const reason = isCut ? 'cut' : 'disconnected';
      this.metrics.lists.labels(isDisconnected ? reason : 'failed').inc();
      abortResponse(res);
    }
    if (!isDisconnected) {
      throw error;
    }
  }
}

function slotsFor(size: number, message: string): FairSlots {
  return new FairSlots(size, { ms: SLOT_TIMEOUT_MS, error: () => new DomainError('service_unavailable', message) });
}

/** @param version see {@link OrderList.version} */
function startResponse(res: Response, status: 200 | 304, version: string | undefined, isCompressed: boolean): Response {
  if (status === 200) {
    res.setHeader('Content-Type', 'application/json');
    if (isCompressed) {
      res.setHeader('Content-Encoding', 'gzip');
    }
  }
  if (version !== undefined) {
    res.setHeader('ETag', etagOf(version));
  }
  res.setHeader('Cache-Control', 'private, no-cache');
  // `cors` has set `Vary: Origin`.
  return res.vary('Authorization, Accept-Encoding').writeHead(status);
}
