import { setImmediate as nextTurn } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import type { Request, Response } from 'express';
import { FairSlots } from '../../common/fair-slots.js';
import { CONFIG, type Config } from '../../config/config.js';
import { databaseCall, INTERNAL_ERROR, sqlStateOf, UNDEFINED_TABLE } from '../../database/postgres-errors.js';
import { DomainError } from '../../errors/domain-error.js';
import { abortResponse, breakConnection } from '../../http/response.js';
import { Metrics } from '../../metrics/metrics.js';
import { UsageRecorder } from '../../usage/usage-recorder.js';
import { arrayOf, gzipped, inflated } from './list-body.js';
import type { ListImage } from './list-image.js';
import { ListImages } from './list-images.js';
import { type ListTransaction, ListTransactions } from './list-transaction.js';
import { etagOf, type ListVersion, matchesEtag } from './list-version.js';
import { ListVersions } from './list-versions.js';
import { OrderListEncoder } from './order-list-encoder.js';
import { ClientDisconnected, sendBody } from './send-body.js';

/** Uncompressed lists that are sent from memory at once: each holds two or three chunks of a megabyte. */
const UNCOMPRESSED_MAX = 64;
/** How long such a list waits when this number is reached and no other one of its key begins. Milliseconds. */
const UNCOMPRESSED_WAIT_MS = 10_000;
/**
 * The part of `MAX_CONNECTIONS` that lists may take, also those that wait for an image or for one of the other slots: a proxy that has
 * forwarded as many requests as it may forwards no cancel.
 */
const LISTS_SHARE = 1 / 2;
/** As many lists of a key as may have a part may wait for one, and so many at least: clients that start together get their lists. */
const WAITING_MIN = 64;
/** How long a list waits when this part is taken, and one that memory does not hold for its turn. Less than proxies wait. Milliseconds. */
const WAIT_MS = 4_000;
/** The part of these slots that one key may hold. */
const KEY_SHARE = 1 / 4;
/**
 * How long a list that memory does not hold may wait for its client in all. An ALTER TABLE waits for its transaction, and cancels wait
 * for the ALTER TABLE. Milliseconds.
 */
const CLIENT_WAIT_MAX_MS = 60_000;
/** Responses that begin in one turn of the event loop: many requests may wait for one version, or for one image. */
const BEGUN_PER_TURN = 32;

/** A list that is being sent. */
interface Sending {
  readonly res: Response;
  /** The key, by whose id slots are shared. */
  readonly caller: string;
  readonly isCompressed: boolean;
  /** Ends the response, because a newer image needs the memory. */
  readonly cut: () => void;
  isCut: boolean;
  /** Of the body, compressed or not, that the operating system has accepted. */
  sentBytes: number;
}

/** Responds to the list operation: 304 if the client has the current list, headers only to HEAD, all orders to GET. */
@Injectable()
export class OrderListResponder {
  readonly #stallMs: number;
  readonly #lists: FairSlots;
  /** Responses that have begun, or wait for a turn of the event loop; and the last turn that any of them waits for. */
  #begun = 0;
  #lastTurn: Promise<unknown> = Promise.resolve();
  readonly #uncompressed = new FairSlots(UNCOMPRESSED_MAX, {
    ownerMax: UNCOMPRESSED_MAX * KEY_SHARE,
    ms: UNCOMPRESSED_WAIT_MS,
    inTurns: true,
    error: () =>
      unavailable('Too many uncompressed order lists are being sent; send "Accept-Encoding: gzip" or retry shortly.'),
  });
  readonly #streams: FairSlots;

  constructor(
    private readonly versions: ListVersions,
    private readonly images: ListImages,
    private readonly transactions: ListTransactions,
    private readonly usage: UsageRecorder,
    @Inject(CONFIG) { list, connectionsMax }: Config,
    private readonly metrics: Metrics,
  ) {
    this.#stallMs = list.stallSeconds * 1_000;
    const listsMax = Math.ceil(connectionsMax * LISTS_SHARE);
    this.#lists = new FairSlots(listsMax, {
      ownerMax: listsMax * KEY_SHARE,
      waitingMax: Math.max(WAITING_MIN, Math.floor(listsMax * KEY_SHARE)),
      ms: WAIT_MS,
      error: () => unavailable('Too many order lists are being sent; retry shortly.'),
    });
    this.#streams = new FairSlots(list.concurrency, {
      ownerMax: list.concurrency * KEY_SHARE,
      ms: WAIT_MS,
      error: () => unavailable('Too many order lists are being read; retry shortly.'),
    });
  }

  /**
   * @param caller the key: it shares slots with others, and the list counts as its usage
   * @throws {DomainError} `service_unavailable`
   */
  async respond(req: Request, res: Response, caller: string): Promise<void> {
    const version = await listCall(() => this.versions.current());
    const name = version?.name;
    const isCompressed = req.acceptsEncodings('gzip', 'identity') === 'gzip';
    const isUnchanged = name !== undefined && matchesEtag(req.headers['if-none-match'], etagOf(name));
    if (isUnchanged || req.method === 'HEAD') {
      if (req.method === 'GET') {
        this.usage.add(caller, { lists: 1 });
      }
      await this.#turn();
      startResponse(res, isUnchanged ? 304 : 200, name, isCompressed).end();
      return;
    }
    const sending: Sending = {
      res,
      caller,
      isCompressed,
      isCut: false,
      sentBytes: 0,
      cut: () => {
        // The connection: a response that waits behind another one could not be ended at once. Not once the client has all of it.
        if (!res.writableFinished && !req.socket.destroyed) {
          sending.isCut = true;
          breakConnection(req);
        }
      },
    };
    await listCall(() => inSlot(this.#lists, sending, () => this.#send(version, sending))).catch((error: unknown) => {
      this.#end(sending, error);
    });
  }

  /** Resolves when a response may begin, so that others go on between many. */
  async #turn(): Promise<void> {
    if (this.#begun % BEGUN_PER_TURN === 0) {
      this.#lastTurn = this.#lastTurn.then(() => nextTurn());
    }
    this.#begun++;
    await this.#lastTurn;
  }

  async #send(version: ListVersion | undefined, sending: Sending): Promise<void> {
    const isSent = await this.images.use(version, sending.cut, (image) =>
      sending.isCompressed
        ? this.#sendImage(image, sending, image.gzip)
        : inSlot(this.#uncompressed, sending, () => this.#sendImage(image, sending, arrayOf(inflated(image.chunks)))),
    );
    if (!isSent) {
      await inSlot(this.#streams, sending, () => this.#stream(sending));
    }
  }

  async #sendImage(image: ListImage, sending: Sending, body: Iterable<Buffer> | AsyncIterable<Buffer>): Promise<void> {
    try {
      await this.#write(sending, image.name, body);
    } finally {
      // The part of the list that the client has taken.
      const part = sending.sentBytes / (sending.isCompressed ? image.gzipLength : image.length);
      this.metrics.listBytes.inc(Math.round(part * image.length));
    }
  }

  /** Sends a list that memory does not hold, from the database, at the pace of its client. */
  async #stream(sending: Sending): Promise<void> {
    const transaction = await this.transactions.begin();
    let isComplete = false;
    try {
      await transaction.unlockVersions();
      const body = arrayOf(this.#chunksOf(transaction));
      const encoded = sending.isCompressed ? gzipped(body) : body;
      await this.#write(sending, transaction.version?.name, encoded, CLIENT_WAIT_MAX_MS);
      isComplete = true;
    } finally {
      await transaction.end(isComplete);
    }
  }

  async *#chunksOf(transaction: ListTransaction): AsyncGenerator<Buffer> {
    for await (const { bytes } of transaction.orders(new OrderListEncoder())) {
      this.metrics.listBytes.inc(bytes.length + 1);
      yield bytes;
    }
  }

  async #write(
    sending: Sending,
    version: string | undefined,
    body: Iterable<Buffer> | AsyncIterable<Buffer>,
    waitMaxMs?: number,
  ): Promise<void> {
    const { res, caller, isCompressed } = sending;
    const begin = async (): Promise<void> => {
      await this.#turn();
      if (isLost(sending)) {
        throw new ClientDisconnected();
      }
      startResponse(res, 200, version, isCompressed);
    };
    const onSent = (bytes: number): void => {
      sending.sentBytes += bytes;
    };
    this.metrics.listsRunning.inc();
    try {
      await sendBody(res, body, { stallMs: this.#stallMs, waitMaxMs, begin, onSent });
      this.metrics.lists.labels('complete').inc();
    } finally {
      this.metrics.listsRunning.dec();
      if (res.headersSent) {
        this.usage.add(caller, { lists: 1, listBytes: sending.sentBytes });
      }
    }
  }

  /** Ends a list that has failed. @throws {unknown} the error, unless the client is to blame: the exception filter ends the response */
  #end({ res, isCut }: Sending, error: unknown): void {
    if (error instanceof ClientDisconnected) {
      this.metrics.lists.labels(isCut ? 'cut' : 'disconnected').inc();
      abortResponse(res);
      return;
    }
    if (res.headersSent) {
      this.metrics.lists.labels('failed').inc();
    }
    throw error;
  }
}

/** Like {@link databaseCall}, also for what fails because another transaction replaces the tables meanwhile. */
function listCall<T>(operation: () => Promise<T>): Promise<T> {
  return databaseCall(operation).catch((error: unknown) => {
    const sqlState = sqlStateOf(error);
    throw sqlState === INTERNAL_ERROR || sqlState === UNDEFINED_TABLE
      ? new DomainError('service_unavailable', undefined, { cause: error })
      : error;
  });
}

function unavailable(message: string): DomainError {
  return new DomainError('service_unavailable', message);
}

/** Whether the connection of a list is lost. A response behind another one is not destroyed with it. */
function isLost({ res }: Sending): boolean {
  return res.destroyed || res.req.socket.destroyed;
}

/** Does some work while it holds a slot. The wait for the slot ends when the connection of the list is lost. */
function inSlot(slots: FairSlots, sending: Sending, work: () => Promise<void>): Promise<void> {
  const { res, caller } = sending;
  const left = new AbortController();
  const leave = (): void => {
    left.abort(new ClientDisconnected());
  };
  if (isLost(sending)) {
    leave();
  }
  res.once('close', leave);
  const begin = (): Promise<void> => {
    // Each response closes in the end, and an error that no caller handles costs a tenth of a short list.
    res.off('close', leave);
    return work();
  };
  return slots.run(caller, begin, left.signal);
}

/** Writes the head of a response. @param version undefined when the list has none */
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
