/**
 * Waits for a response from the network for at most `milliseconds`. What it waits for may still complete afterwards.
 *
 * The time in which this process is busy does not count: the timer starts after the writes of this turn of the event loop,
 * and the deadline is one turn after the timer, because timers run before sockets are read.
 * @throws {Error} with the code `ETIMEDOUT`, as for a timeout of the operating system
 */
export async function withDeadline<T>(response: Promise<T>, milliseconds: number): Promise<T> {
  let start: NodeJS.Immediate | undefined;
  let timer: NodeJS.Timeout | undefined;
  try {
    return await new Promise<T>((resolve, reject) => {
      response.then(resolve, reject);
      start = setImmediate(() => {
        timer = setTimeout(() => {
          setImmediate(() => {
            reject(Object.assign(new Error(`no response within ${milliseconds} ms`), { code: 'ETIMEDOUT' }));
          });
        }, milliseconds);
      });
    });
  } finally {
    clearImmediate(start);
    clearTimeout(timer);
  }
}
