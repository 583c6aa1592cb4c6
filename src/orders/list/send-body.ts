import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';

/** Less than this waits for what follows, so that a short list takes one packet. */
export const TAKEN_MIN_BYTES = 64 * 1_024;
/** How often progress is checked within the stall timeout; so a stall is detected at most a quarter of it late. */
const CHECKS_PER_STALL = 4;

/** The client closed the connection or stopped reading, so it cannot receive an error response. */
export class ClientDisconnected extends Error {
  constructor() {
    super('The client of the response is disconnected.');
    this.name = 'ClientDisconnected';
  }
}

export interface SendOptions {
  /** How long the client may take no byte that Node can see before it is disconnected. Milliseconds. */
  readonly stallMs: number;
  /** How long the client may be waited for in all; by default without end. Milliseconds. */
  readonly waitMaxMs?: number | undefined;
  /** Writes the head of the response. Called once the body has its first bytes, so that an error before them can be a response. */
  readonly begin: () => Promise<void>;
  /** Called for bytes that the operating system has accepted. */
  readonly onSent: (bytes: number) => void;
}

/**
 * Writes a body at the pace of its client, and ends the response. A part of {@link TAKEN_MIN_BYTES} or more is no longer used when the
 * next one is asked for. When it throws, the response has not ended: abort it.
 * @throws {ClientDisconnected} @throws {unknown} what reading the body throws
 */
export async function sendBody(
  res: ServerResponse,
  body: Iterable<Buffer> | AsyncIterable<Buffer>,
  options: SendOptions,
): Promise<void> {
  let waitMs = options.waitMaxMs ?? Infinity;
  const write = async (parts: readonly Buffer[], isEnd: boolean): Promise<void> => {
    if (!res.headersSent) {
      await options.begin();
    }
    const startedAt = performance.now();
    await writeAll(res, parts, isEnd, { ...options, waitMaxMs: waitMs });
    waitMs -= performance.now() - startedAt;
  };
  let parts: Buffer[] = [];
  let length = 0;
  for await (const part of body) {
    parts.push(part);
    length += part.length;
    if (length >= TAKEN_MIN_BYTES) {
      await write(parts.splice(0), false);
      length = 0;
      // Megabytes may fit the buffers of the operating system: others go on between two writes.
      await nextTurn();
    }
  }
  // One part of a short list costs less than several.
  parts = parts.length > 1 ? [Buffer.concat(parts)] : parts;
  await write(parts, true);
}

/**
 * Writes parts and, if they are the last, ends the body in the same system call: Node collects what is written in one turn of the event
 * loop. With `res.cork()`, Node 22 and 24 send the end of the body before its last parts. Resolves when the operating system has all.
 */
async function writeAll(
  res: ServerResponse,
  parts: readonly Buffer[],
  isEnd: boolean,
  { stallMs, waitMaxMs = Infinity, onSent }: SendOptions,
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
    const done = (): void => {
      // The end of the response is no loss, whose error would cost a tenth of a short list.
      res.off('close', onDisconnected);
      resolve();
    };
    for (const [index, part] of parts.entries()) {
      res.write(part, (error) => {
        if (error == null) {
          onSent(part.length);
          if (index === parts.length - 1) {
            done();
          }
        }
      });
    }
    if (parts.length === 0) {
      res.once('finish', done);
    }
  });
  const stalled = whenStalled(res.req.socket, stallMs, onDisconnected);
  const late = waitMaxMs === Infinity ? undefined : setTimeout(onDisconnected, waitMaxMs);
  res.once('close', onDisconnected);
  if (isEnd) {
    res.end();
  }
  try {
    await written;
  } finally {
    clearInterval(stalled);
    clearTimeout(late);
    res.off('close', onDisconnected);
  }
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
