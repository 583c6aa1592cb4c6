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
 * Our own slowness is not held against the other side. The time starts at the end of this turn of the event loop, when
 * what was written in it has been sent. Timers run before sockets are read: in a process that was busy for that long the
 * answer may lie unread in the socket when the timer fires, so one more turn is granted in which it can be read.
 * @throws {DeadlineExceeded}
 */
export function withDeadline<T>(answer: Promise<T>, milliseconds: number): Promise<T> {
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
    answer.then(
      (value) => {
        stop();
        resolve(value);
      },
      (error: unknown) => {
        stop();
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- passed on as it came
        reject(error);
      },
    );
  });
}
