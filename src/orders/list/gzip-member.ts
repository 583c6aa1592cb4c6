import { crc32 } from 'node:zlib';

/** A chunk of the list, compressed on its own so that it can be joined with others. */
export interface DeflatedChunk {
  /** Raw deflate data (RFC 1951) that ends on a byte boundary with a sync flush, without a final block. */
  readonly deflated: Buffer;
  /** CRC-32 of the plain bytes. */
  readonly crc: number;
  /** Number of plain bytes. */
  readonly length: number;
}

/** ID1, ID2, deflate; no flags, no time, fastest compression, unknown system (RFC 1952 section 2.3). */
const HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255]);

/** A final, empty stored block (RFC 1951 section 3.2.4). */
const FINAL_BLOCK = Buffer.from([1, 0, 0, 0xff, 0xff]);

const MODULUS = 2 ** 32;

/**
 * Joins chunks that were compressed apart into one gzip member (RFC 1952), as pigz does. One member, because Chromium and
 * curl read no further than the first.
 */
export class GzipMember {
  #crc = 0;
  #length = 0;

  /** The first bytes of the member. */
  header(): Buffer {
    return HEADER;
  }

  /** Adds up to 65,535 plain bytes as a stored block. */
  store(plain: Buffer): Buffer {
    this.#crc = crc32(plain, this.#crc);
    this.#length = (this.#length + plain.length) % MODULUS;
    const block = Buffer.allocUnsafe(5 + plain.length);
    block[0] = 0;
    block.writeUInt16LE(plain.length, 1);
    block.writeUInt16LE(~plain.length & 0xffff, 3);
    plain.copy(block, 5);
    return block;
  }

  /** Adds a compressed chunk; returns its bytes as they are. */
  add({ deflated, crc, length }: DeflatedChunk): Buffer {
    this.#crc = combineCrc32(this.#crc, crc, length);
    this.#length = (this.#length + length) % MODULUS;
    return deflated;
  }

  /** The last bytes of the member. */
  trailer(): Buffer {
    const trailer = Buffer.allocUnsafe(FINAL_BLOCK.length + 8);
    FINAL_BLOCK.copy(trailer);
    trailer.writeUInt32LE(this.#crc, FINAL_BLOCK.length);
    trailer.writeUInt32LE(this.#length, FINAL_BLOCK.length + 4);
    return trailer;
  }
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
export function combineCrc32(first: number, second: number, secondLength: number): number {
  return (multiply(powerOfX8(secondLength), first) ^ second) >>> 0;
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

/** x^(8 * exponent) modulo the polynomial, by repeated squaring. */
function powerOfX8(exponent: number): number {
  let result = ONE;
  let square = ONE >>> 8;
  for (let rest = exponent; rest > 0; rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) {
      result = multiply(square, result);
    }
    square = multiply(square, square);
  }
  return result;
}
