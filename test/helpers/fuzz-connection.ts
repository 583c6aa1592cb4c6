import { connect } from 'node:net';

/** How long a service may be silent about a request before it is asked for the last time. Milliseconds. */
const RESPONSE_TIMEOUT_MS = 250;
/** How long it may take to close a connection whose client has said its last word. Milliseconds. */
const CLOSE_MS = 5_000;

export interface FuzzResult {
  /** Everything that the service sent. */
  readonly text: string;
  /** Whether the service closed the connection, or else answered the last request in full and kept it open. */
  readonly closed: boolean;
}

/** The id that the last request of a provocation carries, which its answer repeats. */
const LAST_WORD = 'the-last-word';

/**
 * Sends bytes that may be anything, then a request that is beyond reproach, on one connection. However the bytes are
 * understood, that must end: with an answer to the last request, or with the connection closed. Where the last request
 * was swallowed by what came before it, the client says that it has no more to say.
 * @param lastRequest its headers without the empty line; it is given an id to know its answer by
 * @param localAddress to come from, so that each is counted for itself
 */
export function fuzzConnection(
  port: number,
  bytes: Buffer,
  lastRequest: string,
  localAddress?: string,
): Promise<FuzzResult> {
  return new Promise((resolve, reject) => {
    let text = '';
    const socket = connect({ port, host: '127.0.0.1', ...(localAddress === undefined ? {} : { localAddress }) });
    const finish = (closed: boolean): void => {
      clearTimeout(silence);
      clearTimeout(limit);
      socket.destroy();
      resolve({ text, closed });
    };
    const silence = setTimeout(() => socket.end(), RESPONSE_TIMEOUT_MS);
    const limit = setTimeout(() => {
      socket.destroy();
      reject(new Error(`Neither answered nor closed. Sent: ${JSON.stringify(bytes.toString('latin1'))} Got: ${text}`));
    }, RESPONSE_TIMEOUT_MS + CLOSE_MS);
    socket.on('data', (chunk: Buffer) => {
      silence.refresh();
      text += chunk.toString('latin1');
      const last = text.lastIndexOf(LAST_WORD);
      if (last !== -1 && text.includes('\r\n\r\n', last) && text.endsWith('}')) {
        finish(false);
      }
    });
    // A reset is a way of closing, too.
    socket.on('error', () => undefined);
    socket.on('close', () => {
      finish(true);
    });
    socket.write(bytes);
    socket.write(`${lastRequest}\r\nX-Request-Id: ${LAST_WORD}\r\n\r\n`);
  });
}
