import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { abortResponse } from '../../http/response.js';
import { combineCrc32, type DeflatedChunk, deflateNow, GZIP_HEADER, gzipTrailer } from './gzip.js';
import type { ListChunk } from './list-chunk.js';

/** What is between the chunks, as it is and compressed. */
const PLAIN = { opening: Buffer.from('['), separator: Buffer.from(','), closing: Buffer.from(']') };
const DEFLATED = {
  opening: deflateNow(PLAIN.opening),
  separator: deflateNow(PLAIN.separator),
  closing: deflateNow(PLAIN.closing),
};
/** Less than this waits for what follows, so that a short list takes one packet. */
const WRITE_MIN_BYTES = 64 * 1_024;
/** How often progress is checked within the stall timeout; so a stall is detected at most a quarter of it late. */
const CHECKS_PER_STALL = 4;

/** The client closed the connection or stopped reading, so it cannot receive an error response. */
export class ClientDisconnected extends Error {
  constructor() {
    super('The client of the response is disconnected.');
    this.name = 'ClientDisconnected';
  }
}

/**
 * The body of a list: a JSON array or, compressed, one gzip member of it (RFC 1952), because Chromium and curl read no further than the
 * first. Written at the pace of its client.
 */
export class ListWriter {
  /** Bytes of the body that the operating system has accepted. */
  sentBytes = 0;
  /** What has not been written. */
  #parts: Buffer[] = [];
  #chunks: ListChunk[] = [];
  /** Bytes of JSON. */
  #length = 0;
  /** CRC-32 of the JSON, when it is compressed. */
  #crc = 0;
  #hasWritten = false;
  readonly #literals: typeof PLAIN | typeof DEFLATED;

  /** @param stallMs how long the client may take no byte that Node can see before it is disconnected; milliseconds */
  constructor(
    private readonly res: ServerResponse,
    private readonly isCompressed: boolean,
    private readonly stallMs: number,
  ) {
    this.#literals = isCompressed ? DEFLATED : PLAIN;
    this.#parts.push(...(isCompressed ? [GZIP_HEADER] : []));
    this.#add(this.#literals.opening);
  }

  /**
   * Writes the chunks of the list and ends the response. One chunk is prepared on the thread pool while the one before it is written.
   * @returns the number of bytes of JSON
   * @throws {ClientDisconnected}
   */
  async send(chunks: Iterable<ListChunk> | AsyncIterable<ListChunk>): Promise<number> {
    let adding: Promise<void> = Promise.resolve();
    for await (const chunk of chunks) {
      const content = this.isCompressed ? chunk.deflated() : chunk.plain();
      // Handled where it is awaited.
      content.catch(() => undefined);
      await adding;
      adding = this.#addChunk(chunk, content);
      // The next chunk, or the end, throws the error.
      adding.catch(() => undefined);
    }
    await adding;
    this.#add(this.#literals.closing);
    this.#parts.push(...(this.isCompressed ? [gzipTrailer(this.#crc, this.#length)] : []));
    await this.#write(true);
    return this.#length;
  }

  async #addChunk(chunk: ListChunk, content: Promise<Buffer | DeflatedChunk>): Promise<void> {
    const added = await content;
    if (this.#length > PLAIN.opening.length) {
      this.#add(this.#literals.separator);
    }
    this.#add(added);
    this.#chunks.push(chunk);
    if (this.#parts.reduce((sum, { length }) => sum + length, 0) >= WRITE_MIN_BYTES) {
      if (this.#hasWritten) {
        // Megabytes may fit the buffers of the operating system: others go on between two writes.
        await nextTurn();
      }
      this.#hasWritten = true;
      await this.#write(false);
    }
  }

  #add(content: Buffer | DeflatedChunk): void {
    this.#length += content.length;
    if (Buffer.isBuffer(content)) {
      this.#parts.push(content);
    } else {
      this.#parts.push(content.deflated);
      this.#crc = combineCrc32(this.#crc, content.crc, content.length);
    }
  }

  /**
   * Writes what has been added and, if it is the end, ends the body in the same system call. Resolves when the operating system has all
   * of it. @throws {ClientDisconnected}
   */
  async #write(isEnd: boolean): Promise<void> {
    const [parts, chunks] = [this.#parts, this.#chunks];
    [this.#parts, this.#chunks] = [[], []];
    try {
      await writeAll(this.res, parts, isEnd, this.stallMs, (bytes) => {
        this.sentBytes += bytes;
      });
    } catch (error) {
      abortResponse(this.res);
      if (!this.res.req.socket.destroyed) {
        // Behind another response: Node still holds what was to be written, so its memory must not be reused.
        chunks.length = 0;
      }
      throw error;
    } finally {
      chunks.forEach((chunk) => {
        chunk.release();
      });
    }
  }
}

/**
 * Node collects what is written in one turn of the event loop into one system call. With `res.cork()`, Node 22 and 24 send the end of
 * the body before its last parts.
 */
async function writeAll(
  res: ServerResponse,
  parts: readonly Buffer[],
  isEnd: boolean,
  stallMs: number,
  onSent: (bytes: number) => void,
): Promise<void> {
  // A connection that is closed already emits no further event.
  if (res.destroyed) {
    throw new ClientDisconnected();
  }
  let onDisconnected = (): void => undefined;
  const written = new Promise<void>((resolve, reject) => {
    onDisconnected = () => {
      reject(new ClientDisconnected());
    };
    for (const [index, part] of parts.entries()) {
      res.write(part, (error) => {
        if (error == null) {
          onSent(part.length);
          if (index === parts.length - 1) {
            // The end of the response is no loss, whose error would cost a tenth of a short list.
            res.off('close', onDisconnected);
            resolve();
          }
        }
      });
    }
  });
  const timer = whenStalled(res.req.socket, stallMs, onDisconnected);
  res.once('close', onDisconnected);
  if (isEnd) {
    res.end();
  }
  await written.finally(() => {
    clearInterval(timer);
    res.off('close', onDisconnected);
  });
}

/** Watches bytes of any response of the connection, because a response behind another one has no socket of its own yet. */
function whenStalled(socket: Socket, stallMs: number, onStalled: () => void): NodeJS.Timeout {
  const taken = (): number => socket.bytesWritten - socket.writableLength;
  let [last, unchanged] = [taken(), 0];
  return setInterval(() => {
    unchanged = taken() === last ? unchanged + 1 : 0;
    last = taken();
    if (unchanged === CHECKS_PER_STALL) {
      onStalled();
    }
  }, stallMs / CHECKS_PER_STALL);
}
