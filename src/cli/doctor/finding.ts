/** `skipped`: the check could not run, or does not apply to this deployment. */
export type Status = 'ok' | 'warning' | 'error' | 'skipped';

/** The result of a check. */
export interface Finding {
  readonly status: Status;
  /** What was found, in one line. Never contains a secret. */
  readonly message: string;
  /** One line each, such as all invalid variables. */
  readonly details: readonly string[];
  /** What to do about a warning or an error. */
  readonly remedy: string | null;
}

export function ok(message: string): Finding {
  return { status: 'ok', message, details: [], remedy: null };
}

export function warning(message: string, remedy: string, details: readonly string[] = []): Finding {
  return { status: 'warning', message, details, remedy };
}

export function error(message: string, remedy: string, details: readonly string[] = []): Finding {
  return { status: 'error', message, details, remedy };
}

export function notChecked(reason: string): Finding {
  return { status: 'skipped', message: `not checked: ${reason}`, details: [], remedy: null };
}
