import { freeBuffer } from '../../common/free-buffer.js';
import { deflate, inflate } from './deflate.js';
import { GzipMember } from './gzip-member.js';
import type { ListPart } from './list-parts.js';
import type { ResponseBody } from './response-body.js';

const OPENING = Buffer.from('[');
const SEPARATOR = Buffer.from(',');
const CLOSING = Buffer.from(']');

/** Encodes the parts of the list for a response. */
interface Encoder {
  readonly header: readonly Buffer[];
  /** Encodes a few bytes. */
  text(bytes: Buffer): Buffer;
  /** Prepares a part on the thread pool; the result is called in the order of the parts. */
  part(part: ListPart): Promise<() => Buffer>;
  trailer(): readonly Buffer[];
}

/** Uncompressed JSON. */
function identity(): Encoder {
  return {
    header: [],
    text: (bytes) => bytes,
    part: async (part) => {
      const bytes = part.kind === 'block' ? await inflate(part.block) : part.bytes;
      return () => bytes;
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
    part: async (part) => {
      const block = part.kind === 'block' ? part.block : await deflate(part.bytes);
      return () => member.add(block);
    },
    trailer: () => [member.trailer()],
  };
}

/**
 * Writes the list as a JSON array at the pace of the client. One part is prepared while the one before it is written. The
 * last block goes out with the end of the body, so a list of one block takes one packet.
 * @returns the number of bytes of JSON
 * @throws {ClientDisconnected}
 */
export async function writeList(
  parts: AsyncIterable<ListPart>,
  body: ResponseBody,
  compressed: boolean,
): Promise<number> {
  const encoder = compressed ? gzip() : identity();
  let length = OPENING.length + CLOSING.length;
  let texts = [OPENING];
  let head = encoder.header;
  let lastBlock: readonly Buffer[] = [];
  let writing: Promise<void> = Promise.resolve();
  for await (const part of parts) {
    const size = part.kind === 'block' ? part.block.length : part.bytes.length;
    if (size === 0) {
      continue;
    }
    if (length > OPENING.length + CLOSING.length && !(part.kind === 'plain' && part.continued)) {
      texts.push(SEPARATOR);
      length += SEPARATOR.length;
    }
    length += size;
    const [start, before] = [head, texts];
    [head, texts] = [[], []];
    const prepared = encoder.part(part);
    // An error is thrown when the part is written.
    prepared.catch(() => undefined);
    await writing;
    const encoded = prepared.then((encode) => [...start, ...before.map((bytes) => encoder.text(bytes)), encode()]);
    if (part.kind === 'block' && part.last === true) {
      lastBlock = await encoded;
      continue;
    }
    writing = encoded.then((pieces) =>
      body.write(pieces, () => {
        if (part.kind === 'plain') {
          part.release();
        }
        // What this list alone has: the compressed bytes of a plain part, or the plain bytes of a block.
        if ((part.kind === 'plain') === compressed) {
          pieces.slice(-1).forEach(freeBuffer);
        }
      }),
    );
    writing.catch(() => undefined);
  }
  await writing;
  const closing = [...texts, CLOSING].map((bytes) => encoder.text(bytes));
  await body.end([...lastBlock, ...head, ...closing, ...encoder.trailer()]);
  return length;
}
