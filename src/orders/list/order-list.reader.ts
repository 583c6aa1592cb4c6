import { Inject, Injectable } from '@nestjs/common';
import { inBackground } from '../../common/in-background.js';
import { FairSlots, type Slot } from '../../common/fair-slots.js';
import { CONFIG, type Config } from '../../config/config.js';
import { databaseCall } from '../../database/postgres-errors.js';
import { DomainError } from '../../errors/domain-error.js';
import { Metrics } from '../../metrics/metrics.js';
import type { ListChunk } from './list-chunk.js';
import { ListCompaction } from './list-compaction.js';
import { cachedChunks, ListReading } from './list-reading.js';
import { ListTransactions } from './list-transaction.js';
import { ListVersions } from './list-versions.js';
import { type CachedPiece, PieceCache, type PieceUser } from './piece-cache.js';

/** How long a list waits for a slot. Milliseconds. */
const SLOT_TIMEOUT_MS = 4_000;

export interface OrderList {
  /** See {@link ListVersion.name}; undefined when the list has no version. */
  readonly version: string | undefined;
  readonly chunks: Iterable<ListChunk> | AsyncIterable<ListChunk>;
  /** To be called when no more chunks will be taken. */
  close(): void;
}

/** The name of the current version of the list, being read; it becomes undefined when there is none. */
export type CurrentName = Promise<string | undefined>;

export interface ListRequest {
  /** Who shares the slots fairly with others. */
  readonly caller: string;
  /** See {@link OrderListReader.readAhead}. */
  readonly current: CurrentName;
  /** Whether the chunks will be sent compressed. */
  readonly isCompressed: boolean;
  /** Ends the list: its client is too slow, or what it holds is needed for others. */
  readonly cut: () => void;
}

/** Reads the order list: what is current in memory from there, the rest from the database. */
@Injectable()
export class OrderListReader {
  readonly #cache: PieceCache;
  readonly #slots: FairSlots;

  constructor(
    private readonly versions: ListVersions,
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
   * Opens the list in its current version and reads its first part, so that most errors occur before the response starts.
   * @throws {DomainError} `service_unavailable` when the database is unavailable or too many lists are being read
   */
  async open(request: ListRequest): Promise<OrderList> {
    return databaseCall(() => this.#open(request));
  }

  /** Begins to read the version for a request that has arrived. Never throws. */
  readAhead(): CurrentName {
    const name = this.versions.currentName();
    // Awaited by the request, if it is admitted.
    name.catch(() => undefined);
    return name;
  }

  /**
   * The name of the current version; undefined while there is none.
   * @throws {DomainError} `service_unavailable`
   */
  async nameFor({ current, caller }: Pick<ListRequest, 'current' | 'caller'>): Promise<string | undefined> {
    return databaseCall(() => this.versions.inTurn(current, caller, 'headers'));
  }

  /** Drops what is in memory, after a piece was found to be corrupt. */
  clearCache(): void {
    this.#cache.clear();
  }

  async #open(request: ListRequest): Promise<OrderList> {
    const { current, caller } = request;
    const name = await this.versions.inTurn(current, caller, 'list');
    const inMemory = this.#openFromMemory(name, request);
    if (inMemory !== undefined) {
      return inMemory;
    }
    const slot = await this.#slots.acquire(caller);
    // Another list may have read the same pieces meanwhile.
    const nowInMemory = this.#openFromMemory(name, request);
    if (nowInMemory !== undefined) {
      slot.release();
      return nowInMemory;
    }
    return this.#openFromDatabase(request, slot, name !== undefined);
  }

  /** A list of pieces that are all in memory; it needs no connection. */
  #openFromMemory(name: string | undefined, { cut }: ListRequest): OrderList | undefined {
    const version = this.versions.known(name);
    const found = version?.pieces.map(({ key }) => this.#cache.get(key));
    if (version === undefined || !found?.every((piece) => piece !== undefined)) {
      return undefined;
    }
    this.#cache.show(version.pieces);
    this.metrics.listPieces.labels('memory').inc(found.length);
    const user = this.#user(cut, found);
    return {
      version: name,
      chunks: chunksOf(found, user),
      close: () => {
        this.#cache.endUsing(user);
      },
    };
  }

  async #openFromDatabase(request: ListRequest, slot: Slot, isIntact: boolean): Promise<OrderList> {
    const { isCompressed, cut } = request;
    const transaction = await this.transactions.begin(isIntact).catch((error: unknown) => {
      slot.release();
      throw error;
    });
    const user = this.#user(cut);
    const reading = new ListReading({
      ...{ transaction, slot, cache: this.#cache, user, isCompressed },
      onMissing: (pieces) => {
        this.metrics.listPieces.labels('database').inc(pieces);
      },
      onRead: (rows) => {
        this.metrics.listRows.inc(rows);
      },
      onLargePiece: (piece) => {
        this.compaction.noteBlocks(piece);
      },
    });
    const close = (): void => {
      reading.close();
      this.#cache.endUsing(user);
    };
    const ended = reading.run();
    inBackground(ended);
    try {
      await reading.ready();
    } catch (error) {
      close();
      await ended;
      throw error;
    }
    return { version: transaction.version?.name, chunks: reading.chunks(), close };
  }

  #user(cut: () => void, pieces: readonly CachedPiece[] = []): PieceUser {
    const user = { pieces: new Set(pieces), cut };
    this.#cache.startUsing(user);
    return user;
  }
}

/** One after the other: the chunks of many slow lists would take more memory than their pieces. */
function* chunksOf(pieces: readonly CachedPiece[], user: PieceUser): Generator<ListChunk> {
  for (const piece of pieces) {
    yield* cachedChunks(piece, user);
  }
}
