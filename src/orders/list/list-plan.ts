import type { Metrics } from '../../metrics/metrics.js';
import { type BlockCache, OVERHEAD_BYTES } from './block-cache.js';
import type { DeflatedBlock } from './gzip-member.js';
import type { ListTransaction } from './list-transaction.js';
import type { BlockVersion } from './list-version.js';

/** The assumed size of a compressed block in which all ids are used. */
const FULL_BLOCK_BYTES = 320 * 1_024;
/** The assumed size of the compressed list in proportion to the table; measured: 0.19. */
const COMPRESSED_SHARE = 0.25;
/** Missing blocks that every list reads ahead. */
const READ_AHEAD_ALWAYS_MAX = 4;

/** Where a part of the list comes from. */
export type Source =
  | { readonly kind: 'block'; readonly block: DeflatedBlock | Promise<DeflatedBlock> }
  /** From the first block to the last, streamed at the pace of the client. */
  | { readonly kind: 'range'; readonly first: bigint; last: bigint };

/**
 * Decides for each block of the list: from memory, read into the cache, or streamed because it does not fit the cache.
 * @param read starts to read a block into the cache
 * @param readAhead whether to read all missing blocks that fit into the cache, or to stream them if they are many
 */
export function planList(
  { version: { blocks, span }, tableBytes }: ListTransaction,
  cache: BlockCache,
  read: (wanted: BlockVersion) => Promise<DeflatedBlock>,
  readAhead: boolean,
  metric: Metrics['listBlocks'],
): Source[] {
  if (span !== undefined) {
    return [{ kind: 'range', ...span }];
  }
  const sources: Source[] = [];
  const missing = blocks.filter((wanted) => cache.get(wanted) === undefined).length;
  const isStreamed = !readAhead && missing > READ_AHEAD_ALWAYS_MAX;
  let room = cache.roomFor(blocks);
  const estimate = estimateBlock(cache, tableBytes * COMPRESSED_SHARE - (cache.bytesMax - room), missing);
  let inMemory = 0;
  for (const wanted of blocks) {
    const block = cache.getOrAwait(wanted);
    const previous = sources.at(-1);
    if (block !== undefined) {
      inMemory++;
      sources.push({ kind: 'block', block });
    } else if (!isStreamed && room >= estimate) {
      room -= estimate;
      sources.push({ kind: 'block', block: read(wanted) });
    } else if (previous?.kind === 'range') {
      previous.last = wanted.id;
    } else {
      sources.push({ kind: 'range', first: wanted.id, last: wanted.id });
    }
  }
  metric.inc({ source: 'memory' }, inMemory);
  metric.inc({ source: 'database' }, blocks.length - inMemory);
  return sources;
}

/**
 * What a missing block will need in the cache. Cached blocks alone do not tell: a list that was short until an import
 * would be read into memory as a whole.
 * @param bytes what all missing blocks will need, by the size of the table
 */
function estimateBlock(cache: BlockCache, bytes: number, missing: number): number {
  const bySize = Math.min(FULL_BLOCK_BYTES, Math.max(0, bytes) / missing + OVERHEAD_BYTES);
  return Math.max(bySize, cache.size === 0 ? 0 : cache.bytes / cache.size);
}
