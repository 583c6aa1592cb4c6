/**
 * Shares the next run of an operation, not the current one: a call that arrives while it runs gets the result of the next run, which begins after
 * the call. At most one run is in flight and one is pending, however many callers there are.
 */
export function shareNextRun<T>(run: () => Promise<T>): () => Promise<T> {
  let next: Promise<T> | undefined;
  let last: Promise<unknown> = Promise.resolve();
  return () => {
    if (next === undefined) {
      next = last.then(() => {
        next = undefined;
        return run();
      });
      last = next.catch(() => undefined);
    }
    return next;
  };
}
