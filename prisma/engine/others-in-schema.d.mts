import type pg from 'pg';

/** Finds out whether others could have code of theirs run with the privileges of this login. */
export function othersInSchema(
  db: pg.ClientBase,
  options?: {
    /** Whether this login may be that of the service. */
    asService?: boolean;
  },
): Promise<{ message: string; remedy: string } | undefined>;

/** What others could do with the privileges of this login, and what to do about it, in one line. */
export function warningOfOthers(db: pg.Client): Promise<string | undefined>;
