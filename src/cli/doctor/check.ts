/** What a check found. */
export interface Result {
  /** `skipped`: the check could not run, or does not apply to this deployment. */
  readonly status: 'ok' | 'warning' | 'error' | 'skipped';
  /** What would break, or what is fine. Never contains a secret. */
  readonly message: string;
  /** What to do about a warning or an error. */
  readonly remedy: string | null;
}

/** By the name of the check, in the order of the output. */
export type Results = Record<string, Result>;

export const ok = (message: string): Result => ({ status: 'ok', message, remedy: null });
export const warning = (message: string, remedy: string): Result => ({ status: 'warning', message, remedy });
export const error = (message: string, remedy: string): Result => ({ status: 'error', message, remedy });
/** @param why a clause, such as `database unreachable` */
export const skipped = (why: string): Result => ({ status: 'skipped', message: `not checked: ${why}`, remedy: null });

/** Limits report a reset in whole seconds. */
const TOLERATED_MS = 1_000;
/** Half of a minute window: keys expire and windows end at visibly different times. */
const ERROR_MS = 30_000;

/** Compares this host's clock with that of a server, which reads its clock halfway between two readings of ours. */
export async function checkClock(server: string, readServerMs: () => Promise<number>): Promise<Result> {
  const sentMs = Date.now();
  const serverMs = await readServerMs();
  const difference = (sentMs + Date.now()) / 2 - serverMs;
  const distance = Math.abs(difference);
  if (distance <= TOLERATED_MS) {
    return ok('within a second of the clock of this host');
  }
  const message = `this host is ${(distance / 1_000).toFixed(1)} s ${difference > 0 ? 'ahead of' : 'behind'} ${server}`;
  const remedy = 'Synchronise the clocks of all hosts with NTP: windows of limits and expiry times depend on them.';
  return distance > ERROR_MS ? error(message, remedy) : warning(message, remedy);
}
