/** What was waited for did not come in time. It may still happen. */
export class DeadlineExceeded extends Error {
  constructor(milliseconds: number) {
    super(`no answer within ${milliseconds} ms`);
    this.name = 'DeadlineExceeded';
  }
}

/**
 * Waits for an answer from the network, but no longer than `milliseconds`.
 *
 * Timers run before sockets are read. In a process that was busy for that long the answer may lie unread in the socket
 * when the timer fires, so one more turn of the event loop is granted in which it can be read: our own slowness is not
 * held against the other side.
 * @throws {DeadlineExceeded}
 */
export function withDeadline<T>(answer: Promise<T>, milliseconds: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      setImmediate(() => {
        reject(new DeadlineExceeded(milliseconds));
      });
    }, milliseconds);
    answer.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      (error: unknown) => {
        clearTimeout(timer);
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- passed on as it came
        reject(error);
      },
    );
  });
}
