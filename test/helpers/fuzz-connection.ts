import { connect } from 'node:net';

/**
 * Without data for this long, the client half-closes the connection, after which Node sends no pending response: far longer than a
 * busy machine takes for one. Milliseconds.
 */
const IDLE_TIMEOUT_MS = 5_000;
/** How long the service may take to close a half-closed connection. Milliseconds. */
const CLOSE_TIMEOUT_MS = 30_000;

export interface FuzzResult {
  /** Everything that the service sent; empty when it closed the connection because a response was pending. */
  readonly text: string;
  /** Whether the service closed the connection; otherwise it sent a complete response to the last request. */
  readonly closed: boolean;
}

/** Request id of the last request, which its response repeats. */
const LAST_REQUEST_ID = 'last-request';

/**
 * Sends arbitrary bytes and then a valid request on one connection. Resolves with the response to that request or when the
 * service closes the connection, and rejects when neither happens. The client half-closes an idle connection, because the
 * bytes may have made the valid request part of a body.
 * @param lastRequest request line and headers without the empty line
 * @param localAddress source address, to count connections against separate clients
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
    const fail = (problem: string): void => {
      reject(new Error(`${problem}. Sent: ${JSON.stringify(bytes.toString('latin1'))} Got: ${text}`));
    };
    const finish = (closed: boolean): void => {
      clearTimeout(idleTimer);
      clearTimeout(closeTimer);
      socket.destroy();
      resolve({ text, closed });
    };
    const idleTimer = setTimeout(() => socket.end(), IDLE_TIMEOUT_MS);
    const closeTimer = setTimeout(() => {
      socket.destroy();
      fail('No response and no close');
    }, IDLE_TIMEOUT_MS + CLOSE_TIMEOUT_MS);
    socket.on('data', (chunk: Buffer) => {
      idleTimer.refresh();
      text += chunk.toString('latin1');
      const last = text.lastIndexOf(LAST_REQUEST_ID);
      if (last !== -1 && text.includes('\r\n\r\n', last) && text.endsWith('}')) {
        finish(false);
      }
    });
    // A reset also closes the connection.
    socket.on('error', () => undefined);
    socket.on('close', () => {
      finish(true);
    });
    socket.write(bytes);
    socket.write(`${lastRequest}\r\nX-Request-Id: ${LAST_REQUEST_ID}\r\n\r\n`);
  });
}
