import { pipeline } from 'node:stream';
import { createGzip } from 'node:zlib';
import { type Deflated, freeBuffer, GZIP_LEVEL, inflate } from './gzip.js';
import type { EncodedChunk } from './order-list-encoder.js';
import { TAKEN_MIN_BYTES } from './send-body.js';

const [OPENING, SEPARATOR, CLOSING] = [Buffer.from('['), Buffer.from(','), Buffer.from(']')];
const GZIP_CHUNK_BYTES = 65_536;

/** The JSON of an image. One chunk is decompressed on the thread pool while the one before it is sent. @throws {CorruptChunk} */
export async function* plainBodyOf(chunks: readonly Deflated[]): AsyncGenerator<Buffer> {
  const inflated = (index: number): Promise<Buffer> => {
    const chunk = chunks[index];
    const plain = chunk === undefined ? Promise.resolve(CLOSING) : inflate(chunk);
    // Handled where it is awaited.
    plain.catch(() => undefined);
    return plain;
  };
  let next = inflated(0);
  yield OPENING;
  for (let index = 0; index < chunks.length; index++) {
    const plain = await next;
    next = inflated(index + 1);
    if (index > 0) {
      yield SEPARATOR;
    }
    yield plain;
    if (plain.length >= TAKEN_MIN_BYTES) {
      freeBuffer(plain);
    }
  }
  yield CLOSING;
}

/**
 * The JSON of a list that is read while it is sent.
 * @param first the chunk that has been read already
 * @param onSending called for each chunk
 */
export async function* streamedBodyOf(
  first: IteratorResult<EncodedChunk, undefined>,
  others: AsyncGenerator<EncodedChunk, undefined>,
  onSending: (chunk: Buffer) => void,
): AsyncGenerator<Buffer> {
  yield OPENING;
  for (let next = first, isFirst = true; next.done !== true; next = await others.next(), isFirst = false) {
    const { bytes } = next.value;
    onSending(bytes);
    if (!isFirst) {
      yield SEPARATOR;
    }
    yield bytes;
    if (bytes.length >= TAKEN_MIN_BYTES) {
      freeBuffer(bytes);
    }
  }
  yield CLOSING;
}

/** Compresses a body as it is read. Its errors are thrown where the result is read. */
export function gzipped(body: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
  const gzip = createGzip({ level: GZIP_LEVEL, chunkSize: GZIP_CHUNK_BYTES });
  return pipeline(body, gzip, () => undefined);
}
