import type { DeflatedBlock } from './gzip-member.js';
import type { BlockVersion } from './list-version.js';

/** Approximate memory of a cached block in addition to its bytes: objects and the entry of the map. */
export const OVERHEAD_BYTES = 500;

interface Entry {
  readonly version: string;
  readonly block: DeflatedBlock;
  readonly readAt: number;
}

/**
 * Keeps compressed blocks, each under its version, up to a number of bytes. A list is a sequential scan, so evicting the
 * least recently used block would evict each block just before it is needed once the list outgrows the cache. Blocks
 * stay until their successor replaces them; a block that does not fit is not kept.
 */
export class BlockCache {
  readonly #entries = new Map<bigint, Entry>();
  readonly #pending = new Map<string, Promise<DeflatedBlock>>();
  #bytes = 0;

  /** @param bytesMax 0: nothing is kept */
  constructor(readonly bytesMax: number) {}

  get bytes(): number {
    return this.#bytes;
  }

  get size(): number {
    return this.#entries.size;
  }

  get({ id, version }: BlockVersion): DeflatedBlock | undefined {
    const entry = this.#entries.get(id);
    return entry?.version === version ? entry.block : undefined;
  }

  /** Also a block that another list is reading. */
  getOrAwait(wanted: BlockVersion): DeflatedBlock | Promise<DeflatedBlock> | undefined {
    return this.get(wanted) ?? this.#pending.get(keyOf(wanted));
  }

  /** Shares a block that is being read until it has been read. */
  share(wanted: BlockVersion, block: Promise<DeflatedBlock>): void {
    const key = keyOf(wanted);
    this.#pending.set(key, block);
    // Also handles the rejection for the case that no list waits for the block.
    const settled = (): boolean => this.#pending.delete(key);
    block.then(settled, settled);
  }

  /** Free bytes after the outdated ones among these blocks are replaced. */
  roomFor(blocks: readonly BlockVersion[]): number {
    let room = this.bytesMax;
    for (const wanted of blocks) {
      const block = this.get(wanted);
      room -= block === undefined ? 0 : costOf(block);
    }
    return room;
  }

  /**
   * Keeps a block if it fits, unless a newer version of it is kept.
   * @param readAt when its version was read, as a number that grows
   */
  set({ id, version }: BlockVersion, block: DeflatedBlock, readAt: number): void {
    const previous = this.#entries.get(id);
    if (previous !== undefined) {
      if (previous.readAt > readAt) {
        return;
      }
      this.#delete(id);
    }
    const bytes = costOf(block);
    if (this.#bytes + bytes <= this.bytesMax) {
      this.#entries.set(id, { version, block, readAt });
      this.#bytes += bytes;
    }
  }

  clear(): void {
    this.#entries.clear();
    this.#bytes = 0;
  }

  #delete(id: bigint): void {
    const entry = this.#entries.get(id);
    if (entry !== undefined) {
      this.#entries.delete(id);
      this.#bytes -= costOf(entry.block);
    }
  }
}

function keyOf({ id, version }: BlockVersion): string {
  return `${id}@${version}`;
}

function costOf({ deflated }: DeflatedBlock): number {
  return deflated.buffer.byteLength + OVERHEAD_BYTES;
}
