import type { Socket } from 'node:net';

/** About 25 of the smallest requests, or one with many headers. */
const SLICE_BYTES = 1_024;

/**
 * A connection with this many requests without a response is not read further until half of them are left: otherwise a
 * client that pipelines faster than it is served fills the memory, and others wait until all of its requests have been handled.
 * The rest of a slice is still handled.
 */
const UNANSWERED_MAX = 16;

/** Reading from a new connection of an HTTP server, which is held while the connection has too many pending responses. */
export class Reading {
  #isHeld = false;
  /** Node pauses a connection for reasons of its own, while its client takes no responses, and resumes it. */
  #isPausedByNode = false;
  readonly #pause: () => Socket;
  readonly #resume: () => Socket;

  constructor(connection: Socket) {
    readInSlices(connection);
    this.#pause = connection.pause.bind(connection);
    this.#resume = connection.resume.bind(connection);
    connection.pause = () => {
      this.#isPausedByNode = true;
      return this.#pause();
    };
    connection.resume = () => {
      this.#isPausedByNode = false;
      return this.#isHeld ? connection : this.#resume();
    };
  }

  /** Call when the number of pending responses has changed. */
  adjustTo(pending: number): void {
    if (pending >= UNANSWERED_MAX) {
      this.hold();
    } else if (this.#isHeld && pending <= UNANSWERED_MAX / 2) {
      this.#isHeld = false;
      // Node ends the process when it gets data from a connection that it has paused.
      if (!this.#isPausedByNode) {
        this.#resume();
      }
    }
  }

  hold(): void {
    this.#isHeld = true;
    this.#pause();
  }
}

/**
 * Lets a connection be paused within what one read has received: up to 64 KB, or 1,700 small requests. By default the parser gets
 * all of it at once, past the stream of the connection.
 */
function readInSlices(connection: Socket): void {
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
