/**
 * Replaces the monotonic clock of this test file until the next test. Not by a spy on `performance`: all files of a worker share that
 * object, and fake timers put a spy back on it, so that waits in later files would never end.
 * @param now in milliseconds
 */
export function replaceMonotonicClock(now: () => number): void {
  jest.replaceProperty(globalThis, 'performance', { now } as typeof performance);
}
