import { setMaxListeners } from 'node:events';
import { Inject, Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { shareNextRun } from '../../common/share-next-run.js';
import { CONFIG, type Config } from '../../config/config.js';
import { Metrics } from '../../metrics/metrics.js';
import {
  bytesOf,
  ImageBuilder,
  imageOf,
  type ListImage,
  outdatedOf,
  partsOf,
  type Piece,
  startsOf,
} from './list-image.js';
import { type ListSnapshot, ListSnapshots } from './list-snapshot.js';
import type { ListVersion } from './list-version.js';
import { OrderEncoder, PIECE_ROWS_MIN } from './order-encoder.js';

/** How long lists are streamed after one that memory does not hold. Milliseconds. */
const STREAMED_MS = 60_000;
/** What all images may take with the one that is built, as a multiple of what one may. With the garbage of a build it is less than three. */
const ALL_MAX = 1.5;

/** An image, and what is being sent of it. */
interface Held {
  readonly image: ListImage;
  users: number;
  readonly cut: AbortController;
}

/** Holds the list in memory, as the image of its latest version that was asked for. */
@Injectable()
export class ImageCache implements OnApplicationBootstrap, OnApplicationShutdown {
  /** Tests make pieces of few orders. */
  protected readonly pieceRowsMin: number = PIECE_ROWS_MIN;
  readonly #bytesMax: number;
  /** The latest image, and before it older ones that are still being sent; the oldest first. */
  #held: Held[] = [];
  /** Until when lists are streamed; by `performance.now()`. */
  #streamedUntil: number;
  #isEnding = false;
  readonly #sharedBuild = shareNextRun(() => this.#build());

  constructor(
    private readonly snapshots: ListSnapshots,
    @Inject(CONFIG) { list }: Config,
    private readonly metrics: Metrics,
  ) {
    this.#bytesMax = list.cacheBytes;
    this.#streamedUntil = list.cacheBytes === 0 ? Infinity : -Infinity;
  }

  /** The first client does not wait for the image. An error is that of the first list, too. */
  onApplicationBootstrap(): void {
    this.#sharedBuild().catch(() => undefined);
  }

  /** No request waits for a build any more, and the pool waits for its connection. */
  onApplicationShutdown(): void {
    this.#isEnding = true;
  }

  /** The image of a version, when memory holds it. */
  find(version: ListVersion): ListImage | undefined {
    const image = this.#held.at(-1)?.image;
    return image?.name === version.name ? image : undefined;
  }

  /**
   * Does some work with the list as it is now, or was at some moment since the call. Calls that arrive while an image is built share the
   * next one.
   * @param version the current one
   * @param work ends early when the signal says that newer images need the memory
   * @returns false, without the work, when memory does not hold the list
   * @throws {Error} of the work, or of the database @throws {TypeError} that names an order which cannot be listed
   */
  async use(version: ListVersion, work: (image: ListImage, cut: AbortSignal) => Promise<void>): Promise<boolean> {
    const latest = this.find(version);
    this.metrics.listPieces.labels('memory').inc(latest?.pieces.length ?? 0);
    const held = latest === undefined ? await this.#sharedBuild() : this.#held.at(-1);
    if (held === undefined) {
      return false;
    }
    held.users++;
    try {
      await work(held.image, held.cut.signal);
    } finally {
      held.users--;
    }
    return true;
  }

  /** @returns undefined when memory does not hold the list */
  async #build(): Promise<Held | undefined> {
    if (performance.now() < this.#streamedUntil) {
      return undefined;
    }
    const snapshot = await this.snapshots.forImage();
    try {
      const { version } = snapshot;
      if (version === undefined || this.find(version) !== undefined) {
        return version && this.#held.at(-1);
      }
      const image = await this.#read(snapshot, version);
      if (image === undefined) {
        this.#streamedUntil = performance.now() + STREAMED_MS;
      }
      return image && this.#hold(image);
    } finally {
      await snapshot.close();
    }
  }

  /** Takes over the pieces that have not changed, and reads the others. @returns undefined when they are too large */
  async #read(snapshot: ListSnapshot, version: ListVersion): Promise<ListImage | undefined> {
    const latest = this.#held.at(-1)?.image;
    const before = latest?.basis === version.basis ? latest : undefined;
    const pieces = before?.pieces ?? [];
    const isOutdated = before ? outdatedOf(before, await snapshot.sums(startsOf(pieces)), this.pieceRowsMin) : [];
    const [builder, encoder] = [new ImageBuilder(), new OrderEncoder(this.pieceRowsMin)];
    for (const part of partsOf(pieces, isOutdated)) {
      if ('chunks' in part) {
        builder.take(part);
        this.metrics.listPieces.labels('memory').inc();
        continue;
      }
      for await (const chunk of snapshot.orders(encoder, part)) {
        await builder.add(chunk);
        if (builder.bytes > this.#bytesMax) {
          return undefined;
        }
        this.#cutOldest(builder.pieces);
        if (this.#isEnding) {
          throw new Error('The service stops.');
        }
      }
    }
    const built = await builder.end();
    return builder.bytes > this.#bytesMax ? undefined : imageOf(version, built, await snapshot.sums(startsOf(built)));
  }

  #hold(image: ListImage): Held {
    const held = { image, users: 0, cut: new AbortController() };
    // One for each response.
    setMaxListeners(0, held.cut.signal);
    this.#held = [...this.#held.filter(({ users }) => users > 0), held];
    this.#cutOldest();
    return held;
  }

  /** Cuts what is sent of the oldest images when all together take too much memory. @param built what there is of the next image */
  #cutOldest(built: readonly Piece[] = []): void {
    while (bytesOf([...this.#held.map(({ image }) => image), ...built]) > ALL_MAX * this.#bytesMax) {
      this.#held.shift()?.cut.abort();
    }
  }
}
