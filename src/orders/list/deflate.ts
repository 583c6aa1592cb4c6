import { promisify } from 'node:util';
import { constants, crc32, deflateRaw, inflateRaw, inflateRawSync } from 'node:zlib';
import { freeBuffer } from '../../common/free-buffer.js';
import type { DeflatedChunk } from './gzip-member.js';

/** Fast rather than small: level 1 makes the list 8 to 10 times smaller, and higher levels cost several times the CPU. */
const LEVEL = 1;
/** Room beyond the expected size, so that nearly every chunk takes one pass through the thread pool and one allocation. */
const ROOM = 1.04;
const CHUNK_BYTES_MIN = 64 * 1_024;
/** A result in memory that is larger than this is copied. */
const WASTE_MAX = 1.1;

/** Chunks up to this size are decompressed at once, in less time than the thread pool needs to hand the result over. */
const INFLATED_AT_ONCE_MAX_BYTES = 128 * 1_024;

const deflateAsync = promisify(deflateRaw) as (data: Buffer, options: object) => Promise<Buffer>;
const inflateAsync = promisify(inflateRaw) as (data: Buffer, options: object) => Promise<Buffer>;

/** Compressed size of the last chunk in proportion to its size; the chunks of a list are alike. */
let ratio = 0.35;

/** A chunk's bytes are not what was compressed. */
export class CorruptChunk extends Error {
  constructor() {
    super('A cached chunk of the order list is corrupt.');
    this.name = 'CorruptChunk';
  }
}

/** What the compressed bytes will probably take. */
export function expectedSize(plain: Buffer): number {
  return Math.ceil(plain.length * ratio * ROOM);
}

/** Compresses on the thread pool. */
export async function deflate(plain: Buffer): Promise<DeflatedChunk> {
  const chunkSize = Math.max(expectedSize(plain), CHUNK_BYTES_MIN);
  const options = { level: LEVEL, finishFlush: constants.Z_SYNC_FLUSH, chunkSize };
  const [crc, deflated] = [crc32(plain), await deflateAsync(plain, options)];
  ratio = deflated.length / Math.max(1, plain.length);
  if (deflated.buffer.byteLength <= deflated.length * WASTE_MAX) {
    return { deflated, crc, length: plain.length };
  }
  // A copy of the right size: the result keeps its whole chunk alive.
  const copy = Buffer.allocUnsafeSlow(deflated.length);
  deflated.copy(copy);
  freeBuffer(deflated);
  return { deflated: copy, crc, length: plain.length };
}

/**
 * Decompresses, larger chunks on the thread pool.
 * @throws {CorruptChunk} (by rejection) when the result is not what was compressed
 */
export async function inflate({ deflated, crc, length }: DeflatedChunk): Promise<Buffer> {
  // A chunk that is filled to the last byte would take another pass.
  const options = { finishFlush: constants.Z_SYNC_FLUSH, chunkSize: length + 64, maxOutputLength: length + 1 };
  let plain: Buffer;
  try {
    plain =
      length <= INFLATED_AT_ONCE_MAX_BYTES ? inflateRawSync(deflated, options) : await inflateAsync(deflated, options);
  } catch {
    throw new CorruptChunk();
  }
  if (plain.length !== length || crc32(plain) !== crc) {
    throw new CorruptChunk();
  }
  return plain;
}
