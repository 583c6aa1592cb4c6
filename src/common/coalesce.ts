/**
 * Shares the runs of an operation: a call that arrives while it runs gets the result of the next run, which begins after
 * the call. At most one run is in flight and one is pending, however many callers there are.
 */
export function coalesce<T>(run: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined;
  let next: Promise<T> | undefined;
  const start = (): Promise<T> => {
    next = undefined;
    const current = run().finally(() => {
      if (running === current) {
        running = undefined;
      }
    });
    running = current;
    return current;
  };
  return () => {
    if (running === undefined) {
      return start();
    }
    next ??= running.then(start, start);
    return next;
  };
}
