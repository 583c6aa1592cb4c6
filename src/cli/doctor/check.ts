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
/** @param reason a clause, such as `database unreachable` */
export const skipped = (reason: string): Result => ({
  status: 'skipped',
  message: `not checked: ${reason}`,
  remedy: null,
});
