/** The operation did not complete in time. It may still complete. */
export class DeadlineExceeded extends Error {
  /** As for a timeout of the operating system. */
  readonly code = 'ETIMEDOUT';

  constructor(milliseconds: number) {
    super(`no response within ${milliseconds} ms`);
    this.name = 'DeadlineExceeded';
  }
}

/**
 * Waits for a response from the network for at most `milliseconds`.
 *
 * The time in which this process is busy does not count: the timer starts after the writes of this turn of the event loop,
 * and the deadline is one turn after the timer, because timers run before sockets are read.
 * @throws {DeadlineExceeded}
 */
export function withDeadline<T>(response: Promise<T>, milliseconds: number): Promise<T> {
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const start = setImmediate(() => {
      timer = setTimeout(() => {
        setImmediate(() => {
          reject(new DeadlineExceeded(milliseconds));
        });
      }, milliseconds);
    });
    const stop = (): void => {
      clearImmediate(start);
      clearTimeout(timer);
    };
    response.then(
      (value) => {
        stop();
        resolve(value);
      },
      (error: unknown) => {
        stop();
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- rethrown unchanged
        reject(error);
      },
    );
  });
}
