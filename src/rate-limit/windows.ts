export const MINUTE_MS = 60_000;
export const DAY_MS = 86_400_000;

/**
 * The end of the fixed window that `nowMs` lies in, in Unix seconds. Windows are aligned to the UTC minute and the UTC
 * day, so that every replica names the same reset without asking anybody.
 */
export function windowEndSeconds(nowMs: number, windowMs: number): number {
  return ((Math.floor(nowMs / windowMs) + 1) * windowMs) / 1_000;
}
