import type { Socket } from 'node:net';

/** About 25 of the smallest requests, or one with many headers. */
const SLICE_BYTES = 1_024;

/**
 * Lets a connection of an HTTP server be paused within what one read has received: up to 64 KB, or 1,700 small requests. By default
 * the parser gets all of it at once, past the stream of the connection. Call for a new connection.
 */
export function readInSlices(connection: Socket): void {
  const push = connection.push.bind(connection);
  connection.push = (received: Buffer | null): boolean => {
    if (received === null || received.length <= SLICE_BYTES) {
      return push(received);
    }
    let mayReadOn = true;
    for (let at = 0; at < received.length; at += SLICE_BYTES) {
      // The stream keeps it while it is paused.
      mayReadOn = push(received.subarray(at, at + SLICE_BYTES));
    }
    return mayReadOn;
  };
  // From its first listener for data on, the parser gets what the stream emits.
  const listener = (): void => undefined;
  connection.on('data', listener).off('data', listener);
}
