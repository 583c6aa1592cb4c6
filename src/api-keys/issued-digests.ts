import { Injectable } from '@nestjs/common';

/** Bytes of a digest that are held: of invented keys, one in 280 million shares them with one of 1,000,000 keys. */
export const HELD_BYTES = 6;

const SHA256 = /^[0-9a-f]{64}$/;

/**
 * The first bytes of the digests of all unrevoked keys, so that invented keys are rejected without a query. A key that is not in
 * here does not exist or is revoked, as far as `isComplete`; one that is in here may be revoked meanwhile, or share its first bytes
 * with another, which costs a query.
 *
 * Loaded keys take 6 bytes each, and up to 18 while they are loaded again. One that was announced since takes about 50.
 */
@Injectable()
export class IssuedDigests {
  /** False while notifications of new keys may be missed, and until the keys are loaded afterwards. */
  isComplete = false;
  /** Sorted, {@link HELD_BYTES} each. */
  #loaded: Buffer = Buffer.alloc(0);
  /** Announced since the latest load began. */
  #announced = new Set<number>();
  /** Announced before, and not loaded yet: a load is in progress or has failed. */
  #announcedBefore = new Set<number>();

  /** How many digests the next load turns into loaded ones. */
  get announcedCount(): number {
    return this.#announced.size;
  }

  has(keyHash: string): boolean {
    const held = Number.parseInt(keyHash.slice(0, 2 * HELD_BYTES), 16);
    return includes(this.#loaded, held) || this.#announced.has(held) || this.#announcedBefore.has(held);
  }

  /** @param keyHash SHA-256, hexadecimal; anything else, which every role of the database may announce, is ignored */
  add(keyHash: string): void {
    if (SHA256.test(keyHash)) {
      this.#announced.add(Number.parseInt(keyHash.slice(0, 2 * HELD_BYTES), 16));
    }
  }

  /**
   * Replaces what is held. Until then, all of it is still found; what is added meanwhile stays.
   * @param read reads all digests that exist when it is called: the first {@link HELD_BYTES} of each, sorted
   */
  async load(read: () => Promise<Buffer>): Promise<void> {
    this.#announcedBefore = new Set([...this.#announcedBefore, ...this.#announced]);
    this.#announced = new Set();
    this.#loaded = await read();
    this.#announcedBefore = new Set();
  }
}

/** Binary search. */
function includes(sorted: Buffer, held: number): boolean {
  let low = 0;
  let high = sorted.length / HELD_BYTES;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const found = sorted.readUIntBE(middle * HELD_BYTES, HELD_BYTES);
    if (found === held) {
      return true;
    }
    if (found < held) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return false;
}
