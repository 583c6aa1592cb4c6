import { asError } from '../../common/as-error.js';

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
export const skipped = (message: string): Result => ({ status: 'skipped', message, remedy: null });

/** @param remedy of the errors that the check throws */
export function attempt(remedy: string, check: () => Promise<Result>): Promise<Result> {
  return check().catch((failure: unknown) => error(asError(failure).message, remedy));
}

const NAMED_MAX = 5;

/** The first of these names, and how many more there are. */
export function listOf(names: readonly string[]): string {
  const more = names.length - NAMED_MAX;
  return `${names.slice(0, NAMED_MAX).join(', ')}${more > 0 ? `, and ${more} more` : ''}`;
}
