/** The time of a deadline passes in so many steps, each in a turn of the event loop of its own. */
const STEPS = 10;

/**
 * Waits for a response from the network for at most `milliseconds`. What it waits for may still complete afterwards.
 *
 * The time in which this process is busy, or gets no processor, does not count, apart from a tenth of the deadline for each turn of the event
 * loop: a response may be in the socket, and a request may wait for the response to one before it. Sockets are read between the steps.
 * @throws {Error} with the code `ETIMEDOUT`, as for a timeout of the operating system
 */
export async function withDeadline<T>(response: Promise<T>, milliseconds: number): Promise<T> {
  let turn: NodeJS.Immediate | undefined;
  let timer: NodeJS.Timeout | undefined;
  try {
    return await new Promise<T>((resolve, reject) => {
      response.then(resolve, reject);
      const step = (left: number): void => {
        // Immediates run after sockets have been written and read.
        turn = setImmediate(() => {
          if (left === 0) {
            reject(Object.assign(new Error(`no response within ${milliseconds} ms`), { code: 'ETIMEDOUT' }));
          } else {
            timer = setTimeout(step, milliseconds / STEPS, left - 1);
          }
        });
      };
      step(STEPS);
    });
  } finally {
    clearImmediate(turn);
    clearTimeout(timer);
  }
}
