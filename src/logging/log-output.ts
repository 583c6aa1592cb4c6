import pino from 'pino';

/** What is kept for a reader that does not read. Bytes. */
const BUFFER_MAX = 1_048_576;
/** How many bytes of lines are collected, and for how long in milliseconds. A write of its own for each line costs a request 5 to 10 %. */
const COLLECTED_BYTES = 4_096;
const COLLECTED_MS = 100;
/** How long the reader may take for the last lines. Milliseconds. */
const LAST_LINES_MS = 1_000;

/** Where log lines go: pino's destination, or one that changes each line before. */
export interface LogOutput extends pino.DestinationStream {
  flush(): void;
}

/**
 * Writes lines to stdout in groups. Lines that a reader does not take in time are dropped: a log must hold neither the memory nor the
 * requests of the service.
 * @param onDropped called with the number of dropped lines when the reader reads again
 */
export function openOutput(onDropped: (lines: number) => void): LogOutput {
  let waitUntilMs = 0;
  const output = pino.destination({
    // Node makes a pipe non-blocking when `process.stdout` is first used.
    dest: process.stdout.fd,
    // Otherwise each write occupies a thread of the pool, and the last lines need an event loop.
    sync: true,
    minLength: COLLECTED_BYTES,
    periodicFlush: COLLECTED_MS,
    maxLength: BUFFER_MAX,
    // A pipe is full. Waiting for its reader would block every request.
    retryEAGAIN: () => performance.now() < waitUntilMs,
  });
  let dropped = 0;
  output.on('drop', () => dropped++);
  output.on('drain', () => {
    if (dropped > 0) {
      const lines = dropped;
      dropped = 0;
      onDropped(lines);
    }
  });
  // A full pipe, a closed pipe or a full disk loses lines, and must not end the process.
  output.on('error', () => undefined);
  // Also after an uncaught exception.
  process.once('exit', () => {
    waitUntilMs = performance.now() + LAST_LINES_MS;
    output.end();
  });
  return output;
}
