import { Inject, Injectable } from '@nestjs/common';
import { FairSlots, type Slot } from '../../common/fair-slots.js';
import { inBackground } from '../../common/in-background.js';
import { CONFIG, type Config } from '../../config/config.js';
import { DomainError } from '../../errors/domain-error.js';
import { Metrics } from '../../metrics/metrics.js';
import { chunksOf, type ListChunk } from './list-chunk.js';
import { ListCompaction } from './list-compaction.js';
import { ListReading } from './list-reading.js';
import { ListTransactions } from './list-transaction.js';
import { ClientDisconnected } from './list-writer.js';
import { PieceCache } from './piece-cache.js';

/** How long a list waits for a slot. Milliseconds, as are all durations here. */
const SLOT_TIMEOUT_MS = 4_000;
/** How long a list waits for another one that is filling the memory, before it reads by itself. */
const FILLING_TIMEOUT_MS = 1_000;

export interface OrderList {
  /** See {@link ListVersion.name}; perhaps a newer one than was asked for. Undefined when the list has no version. */
  readonly version: string | undefined;
  readonly chunks: Iterable<ListChunk> | AsyncIterable<ListChunk>;
  /** To be called, perhaps more than once, when no more chunks will be taken. */
  readonly close: () => void;
}

export interface ListRequest {
  /** Who shares the slots fairly with others. */
  readonly caller: string;
  /** Whether the chunks will be sent compressed. */
  readonly isCompressed: boolean;
  /** Ends the list: its client is too slow, or what it holds is needed for others. */
  readonly cut: () => void;
  /** Whether its client has left, or it was cut. */
  readonly isLost: () => boolean;
}

/** Reads the order list: what is current in memory from there, the rest from the database. */
@Injectable()
export class OrderListReader {
  readonly #cache: PieceCache;
  readonly #slots: FairSlots;
  /** Held by the list that fills the memory, until its pieces are there or will not be: others may need the same. */
  readonly #filling = new FairSlots(1, {
    ms: FILLING_TIMEOUT_MS,
    error: () => new Error('Another list is filling the memory.'),
  });

  constructor(
    private readonly transactions: ListTransactions,
    private readonly compaction: ListCompaction,
    @Inject(CONFIG) { list }: Config,
    private readonly metrics: Metrics,
  ) {
    this.#cache = new PieceCache(list.cacheBytes);
    this.#slots = new FairSlots(list.concurrency, {
      ms: SLOT_TIMEOUT_MS,
      error: () => new DomainError('service_unavailable', 'Too many order lists are being read; retry shortly.'),
    });
  }

  /**
   * Opens the list and reads its first part, so that most errors occur before the response starts.
   * @param name of the current version; undefined while there is none
   * @throws {DomainError} `service_unavailable` when too many lists are being read @throws {Error} of the database
   * @throws {ClientDisconnected} when its client has left while it waited
   */
  async open(name: string | undefined, request: ListRequest): Promise<OrderList> {
    const inMemory = this.#openFromMemory(name, request);
    if (inMemory !== undefined) {
      return inMemory;
    }
    const slot = await this.#slots.acquire(request.caller);
    if (request.isLost()) {
      slot.release();
      throw new ClientDisconnected();
    }
    // What has no version is not kept.
    const filling = name === undefined ? undefined : await this.#filling.acquire(request.caller).catch(() => undefined);
    const nowInMemory = this.#openFromMemory(name, request);
    if (nowInMemory !== undefined) {
      filling?.release();
      slot.release();
      return nowInMemory;
    }
    return this.#openFromDatabase(request, slot, name !== undefined, () => filling?.release());
  }

  /** Drops what is in memory, after a piece was found to be corrupt. */
  clearCache(): void {
    this.#cache.clear();
  }

  /** A list of pieces that are all in memory; it needs no connection. */
  #openFromMemory(name: string | undefined, { caller, cut }: ListRequest): OrderList | undefined {
    const pieces = this.#cache.whole(name);
    if (pieces === undefined) {
      return undefined;
    }
    this.metrics.listPieces.labels('memory').inc(pieces.length);
    const user = this.#cache.startUsing(caller, cut, pieces);
    return {
      version: name,
      chunks: chunksOf(pieces),
      close: () => {
        this.#cache.endUsing(user);
      },
    };
  }

  /** @param onFilled see {@link UnsentOptions.onFilled} */
  async #openFromDatabase(
    request: ListRequest,
    slot: Slot,
    isIntact: boolean,
    onFilled: () => void,
  ): Promise<OrderList> {
    const { caller, cut, isCompressed } = request;
    const [cache, { compaction, metrics }] = [this.#cache, this];
    const user = cache.startUsing(caller, cut);
    const reading = new ListReading({ slot, cache, user, isCompressed, onFilled, compaction, metrics });
    const close = (): void => {
      reading.close();
      cache.endUsing(user);
    };
    const ended = reading.run(() => this.transactions.begin(isIntact));
    inBackground(ended);
    try {
      await reading.ready();
    } catch (error) {
      close();
      await ended;
      throw error;
    }
    return { version: reading.version, chunks: reading.chunks(), close };
  }
}
