/** Lets a caller use an available value at once instead of awaiting it, which costs a turn of the event loop. */
export function isPromise<T>(value: T | Promise<T>): value is Promise<T> {
  return value instanceof Promise;
}
