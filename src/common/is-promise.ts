/** Tells a value that is there from one that is still to come, so that the ready case costs no turn of the event loop. */
export function isPromise<T>(value: T | Promise<T>): value is Promise<T> {
  return value instanceof Promise;
}
