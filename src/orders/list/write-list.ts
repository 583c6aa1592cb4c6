import { GzipMember } from './gzip-member.js';
import type { ListChunk } from './list-chunk.js';
import type { ResponseBody } from './response-body.js';

const OPENING = Buffer.from('[');
const SEPARATOR = Buffer.from(',');
const CLOSING = Buffer.from(']');
/** Less than this waits for what follows, so that a short list takes one packet. */
const WRITE_MIN_BYTES = 64 * 1_024;

/** Encodes a list for a response. */
interface Encoder {
  readonly header: readonly Buffer[];
  /** Encodes a few bytes. */
  text(bytes: Buffer): Buffer;
  /** Prepares a chunk on the thread pool. @returns its length as JSON, and what encodes it, to be called in the order of the chunks */
  chunk(chunk: ListChunk): Promise<{ length: number; encode: () => Buffer }>;
  trailer(): readonly Buffer[];
}

/** Uncompressed JSON. */
function identity(): Encoder {
  return {
    header: [],
    text: (bytes) => bytes,
    chunk: async (chunk) => {
      const bytes = await chunk.plain();
      return { length: bytes.length, encode: () => bytes };
    },
    trailer: () => [],
  };
}

/** One gzip member. */
function gzip(): Encoder {
  const member = new GzipMember();
  return {
    header: [member.header()],
    text: (bytes) => member.store(bytes),
    chunk: async (chunk) => {
      const block = await chunk.deflated();
      return { length: block.length, encode: () => member.add(block) };
    },
    trailer: () => [member.trailer()],
  };
}

/**
 * Writes the list as a JSON array at the pace of the client. One chunk is prepared while those before it are written.
 * @returns the number of bytes of JSON
 * @throws {ClientDisconnected}
 */
export async function writeList(
  chunks: Iterable<ListChunk> | AsyncIterable<ListChunk>,
  body: ResponseBody,
  isCompressed: boolean,
): Promise<number> {
  const encoder = isCompressed ? gzip() : identity();
  let length = OPENING.length + CLOSING.length;
  let pieces = [...encoder.header, encoder.text(OPENING)];
  let unsent: ListChunk[] = [];
  let writing: Promise<void> = Promise.resolve();
  for await (const chunk of chunks) {
    const encoded = await encoder.chunk(chunk);
    if (length > OPENING.length + CLOSING.length) {
      pieces.push(encoder.text(SEPARATOR));
      length += SEPARATOR.length;
    }
    pieces.push(encoded.encode());
    unsent.push(chunk);
    length += encoded.length;
    if (sizeOf(pieces) >= WRITE_MIN_BYTES) {
      await writing;
      writing = writeAndRelease(body, pieces, unsent);
      // The next write, or the end, throws the error.
      writing.catch(() => undefined);
      [pieces, unsent] = [[], []];
    }
  }
  await writing;
  await body.end([...pieces, encoder.text(CLOSING), ...encoder.trailer()]);
  unsent.forEach((chunk) => {
    chunk.release();
  });
  return length;
}

async function writeAndRelease(
  body: ResponseBody,
  pieces: readonly Buffer[],
  chunks: readonly ListChunk[],
): Promise<void> {
  try {
    await body.write(pieces);
  } finally {
    // Also after a failure, which is noticed with the next chunk.
    chunks.forEach((chunk) => {
      chunk.release();
    });
  }
}

function sizeOf(pieces: readonly Buffer[]): number {
  return pieces.reduce((sum, { length }) => sum + length, 0);
}
