import { pipeline } from 'node:stream';
import { createGzip } from 'node:zlib';
import { type Deflated, freeBuffer, GZIP_LEVEL, inflate } from './gzip.js';
import { TAKEN_MIN_BYTES } from './send-body.js';

const [OPENING, SEPARATOR, CLOSING] = [Buffer.from('['), Buffer.from(','), Buffer.from(']')];
const GZIP_CHUNK_BYTES = 65_536;

/** A JSON array of the elements in these chunks, each of which is freed once it is sent. */
export async function* arrayOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let before = OPENING;
  for await (const chunk of chunks) {
    yield before;
    yield chunk;
    before = SEPARATOR;
    if (chunk.length >= TAKEN_MIN_BYTES) {
      freeBuffer(chunk);
    }
  }
  yield before === OPENING ? Buffer.concat([OPENING, CLOSING]) : CLOSING;
}

/** Decompresses chunks, one on the thread pool while the one before it is sent. */
export async function* inflated(chunks: readonly Deflated[]): AsyncGenerator<Buffer> {
  const begin = (index: number): Promise<Buffer> | undefined => {
    const chunk = chunks[index];
    const plain = chunk && inflate(chunk);
    // Handled where it is awaited.
    plain?.catch(() => undefined);
    return plain;
  };
  for (let index = 0, next = begin(0); next !== undefined; index++) {
    const plain = await next;
    next = begin(index + 1);
    yield plain;
  }
}

/** Compresses a body as it is read. Its errors are thrown where the result is read. */
export function gzipped(body: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
  const gzip = createGzip({ level: GZIP_LEVEL, chunkSize: GZIP_CHUNK_BYTES });
  return pipeline(body, gzip, () => undefined);
}
