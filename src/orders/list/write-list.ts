import { GzipMember } from './gzip-member.js';
import type { ListChunk } from './list-chunk.js';
import type { ResponseBody } from './response-body.js';

const OPENING = Buffer.from('[');
const SEPARATOR = Buffer.from(',');
const CLOSING = Buffer.from(']');
/** Less than this waits for what follows, so that a short list takes one packet. */
const WRITE_MIN_BYTES = 64 * 1_024;

/** A chunk that can be encoded at once. */
interface Prepared {
  /** Its length as JSON. */
  readonly length: number;
  /** To be called in the order of the chunks. */
  encode(): Buffer;
}

/** Encodes a list for a response. */
interface Encoder {
  readonly header: readonly Buffer[];
  /** Encodes a few bytes. */
  text(bytes: Buffer): Buffer;
  /** Prepares a chunk on the thread pool. */
  chunk(chunk: ListChunk): Promise<Prepared>;
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
      const deflated = await chunk.deflated();
      return { length: deflated.length, encode: () => member.add(deflated) };
    },
    trailer: () => [member.trailer()],
  };
}

/**
 * Writes the list as a JSON array at the pace of the client. One chunk is prepared while the one before it is prepared and written.
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
  const add = async (chunk: ListChunk, prepared: Promise<Prepared>): Promise<void> => {
    const ready = await prepared;
    if (length > OPENING.length + CLOSING.length) {
      pieces.push(encoder.text(SEPARATOR));
      length += SEPARATOR.length;
    }
    pieces.push(ready.encode());
    unsent.push(chunk);
    length += ready.length;
    if (sizeOf(pieces) >= WRITE_MIN_BYTES) {
      const [toWrite, toRelease] = [pieces, unsent];
      [pieces, unsent] = [[], []];
      await writeAndRelease(body, toWrite, toRelease);
    }
  };
  let adding: Promise<void> = Promise.resolve();
  for await (const chunk of chunks) {
    const prepared = encoder.chunk(chunk);
    // Whoever adds the chunk gets the error.
    prepared.catch(() => undefined);
    await adding;
    adding = add(chunk, prepared);
    // The next chunk, or the end, throws the error.
    adding.catch(() => undefined);
  }
  await adding;
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
