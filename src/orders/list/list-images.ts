import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { coalesce } from '../../common/coalesce.js';
import { inBackground } from '../../common/in-background.js';
import { CONFIG, type Config } from '../../config/config.js';
import { Metrics } from '../../metrics/metrics.js';
import { type Cut, ImageBuilder, ImageMemory } from './image-memory.js';
import { imageOf, joinSmall, type ListImage, startsOf } from './list-image.js';
import { type ListTransaction, ListTransactions } from './list-transaction.js';
import type { ListVersion } from './list-version.js';
import { OrderListEncoder, PIECE_ROWS_MIN } from './order-list-encoder.js';

/** How long a request waits for an image before it streams the list. Milliseconds, as are all durations here. */
const BUILD_MAX_MS = 20_000;
/**
 * How long lists are streamed after a build that memory does not hold, or not in time, unless one that was late has the current list. The
 * first list after it tries an image in the background, and is streamed itself.
 */
const STREAMED_MS = 60_000;

/** The tokens of an image when it was read, or compared last. */
interface Compared {
  /** See `ListVersion`. */
  readonly basis: string;
  /** Of each piece, see {@link ListTransaction.sums}. */
  readonly sums: readonly string[];
}

/** Holds the list in memory, as the image of its latest version that was asked for. */
@Injectable()
export class ListImages implements OnModuleDestroy {
  /** Tests make pieces of few orders. */
  protected readonly pieceRowsMin: number = PIECE_ROWS_MIN;
  readonly #bytesMax: number;
  readonly #memory: ImageMemory;
  /** What the pieces of an image are compared by. Merged rows change it, and not the image. */
  readonly #compared = new WeakMap<ListImage, Compared>();
  /** Until when lists are streamed, by `performance.now()`; -Infinity while they fit. */
  #streamedUntil: number;
  /** Requests that wait for an image. */
  #waiting = 0;
  #isStopping = false;
  readonly #sharedBuild = coalesce(() => this.#build());

  constructor(
    private readonly transactions: ListTransactions,
    @Inject(CONFIG) { list }: Config,
    private readonly metrics: Metrics,
  ) {
    this.#bytesMax = list.cacheBytes;
    this.#memory = new ImageMemory(2 * list.cacheBytes);
    this.#streamedUntil = list.cacheBytes === 0 ? Infinity : -Infinity;
  }

  /**
   * Does some work with the list as it is now, or was at some moment since the call. Calls that arrive while an image is built share the
   * next one.
   * @param version the current one; undefined while there is none
   * @param cut ends the work when memory is needed for a newer image
   * @returns false, without the work, when memory does not hold the list, or not in time
   * @throws {Error} of the work, or of the database @throws {TypeError} that names an order which cannot be listed
   */
  async use(version: ListVersion | undefined, cut: Cut, work: (image: ListImage) => Promise<void>): Promise<boolean> {
    const image = await this.#get(version);
    if (image === undefined) {
      return false;
    }
    const release = this.#memory.use(image, cut);
    try {
      await work(image);
    } finally {
      release();
    }
    return true;
  }

  onModuleDestroy(): void {
    this.#isStopping = true;
  }

  async #get(version: ListVersion | undefined): Promise<ListImage | undefined> {
    const { current } = this.#memory;
    if (current !== undefined && version !== undefined && version.name === current.name) {
      if (this.#compared.get(current)?.basis !== version.basis) {
        // Rows have been merged into those that concern every block: without new sums the next change would read everything.
        this.#buildInBackground();
      }
      this.metrics.listPieces.labels('memory').inc(current.pieces.length);
      return current;
    }
    if (this.#streamedUntil === -Infinity) {
      return this.#inTime(this.#sharedBuild());
    }
    if (performance.now() > this.#streamedUntil) {
      this.#streamedUntil = performance.now() + STREAMED_MS;
      this.#buildInBackground();
    }
    return undefined;
  }

  #buildInBackground(): void {
    if (!this.#isStopping) {
      inBackground(this.#sharedBuild());
    }
  }

  async #inTime(building: Promise<ListImage | undefined>): Promise<ListImage | undefined> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => {
        this.#streamedUntil = performance.now() + STREAMED_MS;
        resolve(undefined);
      }, BUILD_MAX_MS);
    });
    this.#waiting++;
    return Promise.race([building, late]).finally(() => {
      this.#waiting--;
      clearTimeout(timer);
    });
  }

  /** @returns undefined when memory does not hold it */
  async #build(): Promise<ListImage | undefined> {
    const startedAt = performance.now();
    const base = this.#memory.current;
    const transaction = await this.transactions.begin();
    const { version } = transaction;
    const builder = new ImageBuilder(this.#memory, this.#bytesMax, version !== undefined);
    let isComplete = false;
    try {
      if (base !== undefined && base.name === version?.name) {
        await this.#noteSums(base, transaction);
        isComplete = true;
        return base;
      }
      isComplete = await this.#readPieces(transaction, base, builder);
      const pieces = isComplete ? joinSmall(await builder.pieces(), this.pieceRowsMin) : [];
      isComplete &&= builder.fits;
      if (!isComplete) {
        this.#streamedUntil = performance.now() + STREAMED_MS;
        this.#memory.current = undefined;
        return undefined;
      }
      const image = imageOf(version?.name, pieces);
      await this.#noteSums(image, transaction);
      this.#memory.current = version && image;
      const isSlow = performance.now() - startedAt > BUILD_MAX_MS;
      this.#streamedUntil = isSlow ? performance.now() + STREAMED_MS : -Infinity;
      return image;
    } finally {
      await builder.close();
      await transaction.end(isComplete);
    }
  }

  /**
   * Takes the pieces that have not changed, and reads the others.
   * @param base the current image
   * @returns false when they do not fit, or nobody needs them any more
   */
  async #readPieces(
    transaction: ListTransaction,
    base: ListImage | undefined,
    builder: ImageBuilder,
  ): Promise<boolean> {
    const before = base && this.#compared.get(base);
    const pieces =
      base !== undefined && before !== undefined && before.basis === transaction.version?.basis ? base.pieces : [];
    const sums = pieces.length > 0 ? await transaction.sums(startsOf(pieces)) : [];
    const isSame = (index: number): boolean => before?.sums[index] === sums[index];
    const encoder = new OrderListEncoder(this.pieceRowsMin);
    for (let index = 0; index < pieces.length || index === 0; index++) {
      const piece = pieces[index];
      if (piece !== undefined && isSame(index)) {
        builder.take(piece);
        this.metrics.listPieces.labels('memory').inc();
        continue;
      }
      while (index + 1 < pieces.length && !isSame(index + 1)) {
        index++;
      }
      const from = piece === pieces[0] ? undefined : piece?.block;
      for await (const chunk of transaction.orders(encoder, from, pieces[index + 1]?.block)) {
        await builder.add(chunk);
        if (!builder.fits || (this.#isStopping && this.#waiting === 0)) {
          return false;
        }
      }
    }
    return true;
  }

  /** Keeps what an image shows in this snapshot, unless the list has no version. */
  async #noteSums(image: ListImage, transaction: ListTransaction): Promise<void> {
    const { version } = transaction;
    if (version !== undefined) {
      this.#compared.set(image, { basis: version.basis, sums: await transaction.sums(startsOf(image.pieces)) });
    }
  }
}
