import { once } from 'node:events';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { Inject, Injectable } from '@nestjs/common';
import type { Request, Response } from 'express';
import { Slots } from '../../common/slots.js';
import { CONFIG, type Config } from '../../config/config.js';
import { databaseCall } from '../../database/postgres-errors.js';
import { DomainError } from '../../errors/domain-error.js';
import { breakConnection } from '../../http/response.js';
import { Metrics } from '../../metrics/metrics.js';
import { UsageRecorder } from '../../usage/usage-recorder.js';
import { type Deflated, GZIP_LEVEL, inflate } from './gzip.js';
import { ImageCache } from './image-cache.js';
import type { ListImage } from './list-image.js';
import { type ListSnapshot, ListSnapshots } from './list-snapshot.js';
import { etagOf, type ListVersion, matchesEtag } from './list-version.js';
import { OrderEncoder } from './order-encoder.js';
import { VersionReader } from './version-reader.js';

/** The part of `MAX_CONNECTIONS` that lists of one key may take: a proxy that has forwarded as many requests as it may forwards no cancel. */
const LISTS_SHARE = 1 / 8;
/** The part of `LIST_CONCURRENCY` that one key may take. */
const STREAMS_SHARE = 1 / 4;
/** How long a list may hold a transaction: an ALTER TABLE waits for it, and cancels wait for the ALTER TABLE. Milliseconds. */
const STREAM_MAX_MS = 60_000;
const GZIP_OPTIONS = { level: GZIP_LEVEL, chunkSize: 65_536 };

/** What the connection has taken of a body, compressed or not. */
interface Sent {
  bytes: number;
}

/** Responds to the list operation: 304 if the client has the current list, headers only to HEAD, all orders to GET. */
@Injectable()
export class OrderListResponder {
  readonly #stallMs: number;
  readonly #lists: Slots;
  readonly #streams: Slots;

  constructor(
    private readonly versions: VersionReader,
    private readonly images: ImageCache,
    private readonly snapshots: ListSnapshots,
    private readonly usage: UsageRecorder,
    @Inject(CONFIG) { list, connectionsMax }: Config,
    private readonly metrics: Metrics,
  ) {
    this.#stallMs = list.stallSeconds * 1_000;
    this.#lists = new Slots(Infinity, {
      ownerMax: Math.ceil(connectionsMax * LISTS_SHARE),
      error: () =>
        new DomainError('service_unavailable', 'Too many order lists of this key are being sent; retry shortly.'),
    });
    // All streams together are bounded by the pool, in whose queue they wait.
    this.#streams = new Slots(Infinity, {
      ownerMax: Math.max(1, Math.floor(list.concurrency * STREAMS_SHARE)),
      error: () =>
        new DomainError('service_unavailable', 'Too many order lists of this key are being read; retry shortly.'),
    });
  }

  /**
   * @param caller the key, whose lists are bounded and counted as its usage
   * @throws {DomainError} `service_unavailable`
   */
  async respond(req: Request, res: Response, caller: string): Promise<void> {
    const version = await databaseCall(() => this.versions.current());
    const isUnchanged = version !== undefined && matchesEtag(req.headers['if-none-match'], etagOf(version));
    if (isUnchanged) {
      this.usage.add(caller, { lists: req.method === 'GET' ? 1 : 0 });
      writeHead(res, version, 304).end();
    } else if (req.method === 'HEAD') {
      writeHead(res, version, 200, version && lengthOf(this.images.find(version), res)).end();
    } else {
      await this.#lists.run(caller, () => this.#list(res, caller, version));
    }
  }

  async #list(res: Response, caller: string, version: ListVersion | undefined): Promise<void> {
    const sent: Sent = { bytes: 0 };
    this.metrics.listsRunning.inc();
    try {
      await databaseCall(() => this.#send(res, caller, version, sent));
      this.metrics.lists.labels('complete').inc();
    } catch (error) {
      this.#end(res, error);
    } finally {
      this.metrics.listsRunning.dec();
      if (res.headersSent) {
        this.usage.add(caller, { lists: 1, listBytes: sent.bytes });
      }
    }
  }

  async #send(res: Response, caller: string, version: ListVersion | undefined, sent: Sent): Promise<void> {
    const isSent =
      version !== undefined && (await this.images.use(version, (image, cut) => this.#sendImage(res, image, cut, sent)));
    if (!isSent) {
      await this.#streams.run(caller, () => this.#stream(res, sent));
    }
  }

  async #sendImage(res: Response, image: ListImage, cut: AbortSignal, sent: Sent): Promise<void> {
    this.#begin(res, image, lengthOf(image, res));
    if (image.short !== undefined) {
      const body = isGzipAccepted(res) ? image.short.gzip : image.short.plain;
      res.end(body);
      sent.bytes += body.length;
    } else {
      const body = isGzipAccepted(res) ? image.gzip : inflated(image.chunks);
      await pipeline(counted(body, sent), res, { signal: cut }).catch((error: unknown) => {
        // From version 24 on, Node reports the closed response instead.
        cut.throwIfAborted();
        throw error;
      });
    }
  }

  /** Sends a list that memory does not hold, from the database, at the pace of its client. */
  async #stream(res: Response, sent: Sent): Promise<void> {
    const snapshot = await this.snapshots.forStream();
    const body = Readable.from(this.#json(snapshot, res));
    const timer = setTimeout(() => {
      breakIfBegun(res);
      snapshot.abort(new Error('The list has taken too long.'));
    }, STREAM_MAX_MS);
    // Otherwise a lost client would not end the wait for a server that sends nothing.
    res.once('close', () => {
      snapshot.abort(clientLeft());
    });
    try {
      // An error before the first orders is a response of its own.
      await once(body, 'readable');
      this.#begin(res, snapshot.version);
      const count = (source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> => counted(source, sent);
      await (isGzipAccepted(res) ? pipeline(body, createGzip(GZIP_OPTIONS), count, res) : pipeline(body, count, res));
    } finally {
      clearTimeout(timer);
      body.destroy();
      await snapshot.close();
    }
  }

  async *#json(snapshot: ListSnapshot, res: Response): AsyncGenerator<Buffer> {
    let before = '[';
    try {
      for await (const { bytes } of snapshot.orders(new OrderEncoder())) {
        yield Buffer.from(before);
        // The encoder uses its buffers again while the connection still has this.
        yield Buffer.from(bytes);
        before = ',';
      }
    } catch (error) {
      // Before the pipeline closes it.
      breakIfBegun(res);
      throw error;
    }
    yield Buffer.from(before === '[' ? '[]' : ']');
  }

  /** Begins a list. @param length of the body, when it is known @throws {Error} when the client has left */
  #begin(res: Response, version: ListVersion | undefined, length?: number): void {
    if (res.destroyed || res.req.socket.destroyed) {
      // A response behind another one is not destroyed with its connection.
      throw clientLeft();
    }
    // When its client takes nothing for so long.
    res.setTimeout(this.#stallMs, () => breakConnection(res.req));
    writeHead(res, version, 200, length);
  }

  /** @throws {unknown} the error, unless the client is to blame */
  #end(res: Response, error: unknown): void {
    const { name, code } = error as NodeJS.ErrnoException;
    if (name === 'AbortError') {
      this.metrics.lists.labels('cut').inc();
    } else if (code?.startsWith('ERR_STREAM_') === true) {
      this.metrics.lists.labels('disconnected').inc();
    } else {
      if (res.headersSent) {
        this.metrics.lists.labels('failed').inc();
      }
      throw error;
    }
  }
}

/** Writes the head of a response. @param version undefined when the list has none @param length undefined when it is not known */
function writeHead(res: Response, version: ListVersion | undefined, status: 200 | 304, length?: number): Response {
  res.setHeader('Cache-Control', 'private, no-cache');
  if (version !== undefined) {
    res.setHeader('ETag', etagOf(version));
  }
  if (status === 200) {
    res.setHeader('Content-Type', 'application/json');
    if (isGzipAccepted(res)) {
      res.setHeader('Content-Encoding', 'gzip');
    }
    if (length !== undefined) {
      res.setHeader('Content-Length', length);
    }
  }
  // `cors` has set `Vary: Origin`.
  return res.vary('Authorization, Accept-Encoding').writeHead(status);
}

/** Like that of a pipeline. */
function clientLeft(): Error {
  return Object.assign(new Error('The client has left.'), { code: 'ERR_STREAM_PREMATURE_CLOSE' });
}

/** In HTTP/1.0 a regular close would mark the end of a body of unknown length. */
function breakIfBegun(res: Response): void {
  if (res.headersSent) {
    breakConnection(res.req);
  }
}

function lengthOf(image: ListImage | undefined, res: Response): number | undefined {
  return isGzipAccepted(res) ? image?.gzipLength : image?.length;
}

function isGzipAccepted({ req }: Response): boolean {
  return req.acceptsEncodings('gzip', 'identity') === 'gzip';
}

async function* counted(body: Iterable<Buffer> | AsyncIterable<Buffer>, sent: Sent): AsyncGenerator<Buffer> {
  for await (const bytes of body) {
    yield bytes;
    sent.bytes += bytes.length;
  }
}

/** Decompresses a list, one chunk on the thread pool while the one before it is sent. */
async function* inflated(chunks: readonly Deflated[]): AsyncGenerator<Buffer> {
  let before = '[';
  let next = chunks[0] && inflate(chunks[0]);
  for (let index = 1; next !== undefined; index++) {
    const plain: Buffer = await next;
    const chunk = chunks[index];
    next = chunk && inflate(chunk);
    // Handled where it is awaited.
    next?.catch(() => undefined);
    yield Buffer.from(before);
    yield plain;
    before = ',';
  }
  yield Buffer.from(']');
}
