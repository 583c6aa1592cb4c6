import type { ImageChunk, ListImage } from './list-image.js';

/** Approximate memory of a chunk in addition to its bytes. */
const OVERHEAD_BYTES = 500;

/** Ends a response. */
export type Cut = () => void;

/** A response that is sending an image. */
interface User {
  cut: Cut;
}

/** Counts the memory of all images: the current one, those that are being sent, and the one that is being built. A shared chunk counts once. */
export class ImageMemory {
  #bytes = 0;
  /** The responses of each image that is current or being sent; the oldest image first. */
  readonly #users = new Map<ListImage, Set<User>>();
  #current: ListImage | undefined;

  /** @param bytesMax of all images together */
  constructor(private readonly bytesMax: number) {}

  get isFull(): boolean {
    return this.#bytes > this.bytesMax;
  }

  /** The image that lists get. */
  get current(): ListImage | undefined {
    return this.#current;
  }

  set current(image: ListImage | undefined) {
    const old = this.#current;
    this.#current = image;
    if (image !== undefined) {
      this.#add(image);
    }
    if (old !== undefined) {
      this.#dropUnused(old);
    }
  }

  /** @returns to be called, perhaps more than once, when the response has ended */
  use(image: ListImage, cut: Cut): () => void {
    const users = this.#add(image);
    const user = { cut };
    users.add(user);
    return () => {
      users.delete(user);
      // V8 keeps deleted entries of a set until a full collection: this one must not keep the response alive.
      user.cut = () => undefined;
      this.#dropUnused(image);
    };
  }

  /** Counts a chunk that a build has read or taken. */
  hold(chunk: ImageChunk): void {
    this.#bytes += chunk.holders === 0 ? sizeOf(chunk) : 0;
    chunk.holders++;
  }

  free(chunks: readonly ImageChunk[]): void {
    for (const chunk of chunks) {
      chunk.holders--;
      this.#bytes -= chunk.holders === 0 ? sizeOf(chunk) : 0;
    }
  }

  /** Cuts the responses of the oldest images, but not of the current one, until there is room. */
  makeRoom(): void {
    for (const [image, users] of this.#users) {
      if (!this.isFull) {
        return;
      }
      if (image !== this.#current) {
        const cut = [...users];
        users.clear();
        this.#dropUnused(image);
        cut.forEach((user) => {
          user.cut();
        });
      }
    }
  }

  #add(image: ListImage): Set<User> {
    let users = this.#users.get(image);
    if (users === undefined) {
      users = new Set();
      this.#users.set(image, users);
      image.chunks.forEach((chunk) => {
        this.hold(chunk);
      });
    }
    return users;
  }

  #dropUnused(image: ListImage): void {
    if (image !== this.#current && this.#users.get(image)?.size === 0) {
      this.#users.delete(image);
      this.free(image.chunks);
    }
  }
}

/** Of compressed bytes and objects. */
export function sizeOf({ deflated }: Pick<ImageChunk, 'deflated'>): number {
  return deflated.length + OVERHEAD_BYTES;
}
