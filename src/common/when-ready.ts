/** Whether a value is yet to come. Awaiting one that is there costs a promise and a turn of the microtask queue. */
export function isPromise<T>(value: T | Promise<T>): value is Promise<T> {
  return value instanceof Promise;
}

/** Goes on with a value at once when it is there. */
export function whenReady<T, R>(value: T | Promise<T>, use: (value: T) => R | Promise<R>): R | Promise<R> {
  return isPromise(value) ? value.then(use) : use(value);
}
