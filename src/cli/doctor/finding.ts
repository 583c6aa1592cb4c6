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

/** The findings of several checks by the name of the check, in the order of the output. */
export type Findings = Record<string, Finding>;

export function ok(message: string): Finding {
  return { status: 'ok', message, details: [], remedy: null };
}

export function warning(message: string, remedy: string, details: readonly string[] = []): Finding {
  return { status: 'warning', message, details, remedy };
}

export function error(message: string, remedy: string, details: readonly string[] = []): Finding {
  return { status: 'error', message, details, remedy };
}

/** @param reason a clause, such as `database unreachable` */
export function notChecked(reason: string): Finding {
  return { status: 'skipped', message: `not checked: ${reason}`, details: [], remedy: null };
}

export function noneChecked(names: readonly string[], reason: string): Findings {
  return Object.fromEntries(names.map((name) => [name, notChecked(reason)]));
}

const LISTED_MAX = 3;

/** Joins names; of many names, the first ones and the number of the others. */
export function list(names: readonly string[]): string {
  const listed = names.slice(0, names.length > LISTED_MAX + 1 ? LISTED_MAX : names.length);
  const others = names.length - listed.length;
  return `${listed.join(', ')}${others === 0 ? '' : ` and ${others} more`}`;
}
