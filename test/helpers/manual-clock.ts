import type { Clock } from '../../src/common/clock.js';

/** A clock that only the test advances. */
export class ManualClock implements Clock {
  /** @param nowMs Unix milliseconds; by default in the middle of a UTC minute */
  constructor(private nowMs: number = Date.UTC(2026, 10, 21, 12, 0, 30)) {}

  now(): number {
    return this.nowMs;
  }

  set(nowMs: number): void {
    this.nowMs = nowMs;
  }

  advance(milliseconds: number): void {
    this.nowMs += milliseconds;
  }
}
