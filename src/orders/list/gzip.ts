import { promisify } from 'node:util';
import { constants, crc32, deflateRaw, deflateRawSync, inflateRaw, inflateRawSync } from 'node:zlib';

/** Fast rather than small: level 1 makes the list 5 times smaller, and higher levels cost several times the CPU. */
export const GZIP_LEVEL = 1;
const OPTIONS = { level: GZIP_LEVEL, finishFlush: constants.Z_SYNC_FLUSH };
/** Room for the whole result, so that it takes one pass through the thread pool. */
const ROOM_BYTES = 64 * 1_024;

const deflateAsync = promisify(deflateRaw) as (data: Buffer, options: object) => Promise<Buffer>;
const inflateAsync = promisify(inflateRaw) as (data: Buffer, options: object) => Promise<Buffer>;

/** A part of the list's JSON, compressed on its own so that it can be joined with others. */
export interface Deflated {
  /** Raw deflate data (RFC 1951) that ends on a byte boundary with a sync flush, without a final block. */
  readonly deflated: Buffer;
  /** CRC-32 of the plain bytes. */
  readonly crc: number;
  /** Number of plain bytes. */
  readonly length: number;
}

/** Compresses on the thread pool. */
export async function deflate(plain: Buffer): Promise<Deflated> {
  const deflated = await deflateAsync(plain, { ...OPTIONS, chunkSize: ROOM_BYTES + Math.ceil(plain.length / 3) });
  // A copy of the right size: the result would keep all of its room.
  return { deflated: Buffer.from(deflated), crc: crc32(plain), length: plain.length };
}

/** Decompresses on the thread pool. */
export function inflate({ deflated, length }: Deflated): Promise<Buffer> {
  return inflateAsync(deflated, inflateOptions(length));
}

export function inflateSync({ deflated, length }: Deflated): Buffer {
  return inflateRawSync(deflated, inflateOptions(length));
}

/** With room for the whole result, and a byte more: filled to the last one, it would take another pass. */
function inflateOptions(length: number): object {
  return { finishFlush: constants.Z_SYNC_FLUSH, chunkSize: length + ROOM_BYTES };
}

/** Compresses what precedes, separates or follows the chunks. */
function literal(text: string): Deflated {
  const plain = Buffer.from(text);
  return { deflated: deflateRawSync(plain, OPTIONS), crc: crc32(plain), length: plain.length };
}
const [OPENING, SEPARATOR, CLOSING] = [literal('['), literal(','), literal(']')];

/** ID1, ID2, deflate; no flags, no time, fastest compression, unknown system (RFC 1952 section 2.3). */
const GZIP_HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255]);
/** A final, empty stored block (RFC 1951 section 3.2.4). */
const FINAL_BLOCK = Buffer.from([1, 0, 0, 0xff, 0xff]);

/** The JSON array of some chunks. */
export interface GzipArray {
  /** One gzip member (RFC 1952), because Chromium and curl read no further than the first. In parts. */
  readonly gzip: readonly Buffer[];
  readonly gzipLength: number;
  /** Bytes of JSON. */
  readonly length: number;
}

export function gzipArrayOf(chunks: readonly Deflated[]): GzipArray {
  const parts = [OPENING, ...chunks.flatMap((chunk, index) => (index === 0 ? [chunk] : [SEPARATOR, chunk])), CLOSING];
  let [crc, length] = [0, 0];
  for (const part of parts) {
    crc = combineCrc32(crc, part.crc, part.length);
    length += part.length;
  }
  const trailer = Buffer.alloc(8);
  trailer.writeUInt32LE(crc, 0);
  trailer.writeUInt32LE(length % 2 ** 32, 4);
  const gzip = [GZIP_HEADER, ...parts.map(({ deflated }) => deflated), FINAL_BLOCK, trailer];
  return { gzip, gzipLength: gzip.reduce((sum, part) => sum + part.length, 0), length };
}

/** The generator polynomial of CRC-32, reflected. */
const POLYNOMIAL = 0xedb88320;
/** x^0, reflected: the highest bit. */
const ONE = 0x80000000;

/**
 * The CRC-32 of two sequences joined, from their own CRC-32s: `first` times x^(8 * length) plus `second`, over GF(2)
 * modulo the polynomial (zlib's crc32_combine).
 * @param secondLength bytes of the second sequence
 */
function combineCrc32(first: number, second: number, secondLength: number): number {
  let product = first;
  // x^8, x^16, x^32 and so on: by repeated squaring.
  let power = ONE >>> 8;
  for (let rest = secondLength; rest > 0; rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) {
      product = multiply(power, product);
    }
    power = multiply(power, power);
  }
  return (product ^ second) >>> 0;
}

/** a times b modulo the polynomial. */
function multiply(a: number, b: number): number {
  let product = 0;
  for (let bit = ONE, factor = b; bit !== 0; bit >>>= 1) {
    if ((a & bit) !== 0) {
      product ^= factor;
    }
    factor = (factor & 1) === 0 ? factor >>> 1 : (factor >>> 1) ^ POLYNOMIAL;
  }
  return product >>> 0;
}
