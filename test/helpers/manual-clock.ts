import type { Clock } from '../../src/common/clock.js';

/** A clock that stands still until a test moves it. */
export class ManualClock implements Clock {
  /** @param nowMs Unix milliseconds; by default half past some UTC minute, away from every edge */
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
