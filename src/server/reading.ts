import type { Socket } from 'node:net';

/** About 25 of the smallest requests, or one with many headers. */
const SLICE_BYTES = 1_024;

/**
 * Hands what a connection receives on in slices, each only when the connection may continue. By default the parser gets all that one
 * read has received at once, past the stream of the connection: up to 64 KB, or 1,700 small requests. While slices wait, nothing is
 * read.
 * @returns hands the next slice on; call it when the connection may continue again
 */
export function readInSlices(connection: Socket, mayContinue: () => boolean): () => void {
  const push = connection.push.bind(connection);
  const read = connection._read.bind(connection);
  const waiting: (Buffer | null)[] = [];
  const handOn = (): boolean => waiting.length > 0 && !connection.isPaused() && mayContinue() && push(waiting.shift());
  connection.push = (received: Buffer | null): boolean => {
    for (let at = 0; received !== null && at < received.length; at += SLICE_BYTES) {
      waiting.push(received.subarray(at, at + SLICE_BYTES));
    }
    if (received === null) {
      waiting.push(null);
    }
    return handOn() && waiting.length === 0;
  };
  // The stream calls it for more, also when it has been paused and goes on.
  connection._read = (size) => {
    if (waiting.length === 0) {
      read(size);
    } else {
      process.nextTick(handOn);
    }
  };
  // From its first listener for data on, the parser gets what the stream emits.
  const listener = (): void => undefined;
  connection.on('data', listener).off('data', listener);
  connection.on('resume', handOn);
  return handOn;
}
