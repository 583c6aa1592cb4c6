import { Injectable } from '@nestjs/common';

/** Bytes of a digest that are held: of invented keys, one in 280 million shares them with one of 1,000,000 keys. */
export const HELD_BYTES = 6;

const SHA256 = /^[0-9a-f]{64}$/;

/** With linear probing, a miss reads 13 adjacent slots at this ratio. */
const FILLED_MAX = 0.8;
const GROWTH = 1.25;
const FIRST_SLOTS = 1_024;

/**
 * The first bytes of the digests of all keys, so that invented keys are rejected without a query. A key that is not in here
 * does not exist, as far as `isComplete`; one that is in here may be revoked meanwhile, or share its first bytes with another, which
 * costs a query. Nothing is ever removed.
 *
 * A hash table in one typed array: 10 to 12.5 bytes for each key, and 22.5 while it grows. A `Set` of strings takes 60.
 */
@Injectable()
export class IssuedDigests {
  /** False while notifications of new keys may be missed, and until the keys are loaded afterwards. */
  isComplete = false;
  /** Zero marks an empty slot, so each number is stored plus one. */
  #slots = new Float64Array(FIRST_SLOTS);
  #count = 0;

  has(keyHash: string): boolean {
    return this.#slots[this.#slotOf(heldPart(keyHash) + 1)] !== 0;
  }

  /** @param keyHash SHA-256, hexadecimal; anything else, which every role of the database may announce, is ignored */
  add(keyHash: string): void {
    if (SHA256.test(keyHash)) {
      this.addHeld(heldPart(keyHash));
    }
  }

  /** Makes room for so many digests in all and some more, so that loading them leaves no smaller tables behind. */
  reserve(count: number): void {
    if (count > this.#slots.length * FILLED_MAX) {
      this.#resize((count / FILLED_MAX) * GROWTH);
    }
  }

  /** @param held the first {@link HELD_BYTES} of a digest as a big-endian number */
  addHeld(held: number): void {
    const slot = this.#slotOf(held + 1);
    if (this.#slots[slot] !== 0) {
      return;
    }
    this.#slots[slot] = held + 1;
    this.#count++;
    if (this.#count > this.#slots.length * FILLED_MAX) {
      this.#resize(this.#slots.length * GROWTH);
    }
  }

  #resize(length: number): void {
    const old = this.#slots;
    this.#slots = new Float64Array(Math.ceil(length));
    for (const stored of old) {
      if (stored !== 0) {
        this.#slots[this.#slotOf(stored)] = stored;
      }
    }
  }

  /** Where a number is or, if it is missing, would be. */
  #slotOf(stored: number): number {
    const slots = this.#slots;
    // The lower 32 bits: digests are loaded in their order, and the higher bits would put each page of them side by side.
    let slot = (stored >>> 0) % slots.length;
    while (slots[slot] !== 0 && slots[slot] !== stored) {
      slot = slot + 1 === slots.length ? 0 : slot + 1;
    }
    return slot;
  }
}

function heldPart(keyHash: string): number {
  return Number.parseInt(keyHash.slice(0, 2 * HELD_BYTES), 16);
}
