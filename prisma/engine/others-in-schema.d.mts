import type pg from 'pg';

/** Finds out whether others could have code of theirs run with the privileges of this login. */
export function othersInSchema(
  db: pg.ClientBase,
  options?: {
    /** Whether this login may be that of the service. */
    asService?: boolean;
  },
): Promise<{ message: string; remedy: string } | undefined>;

/** @throws {Error} when others could have code of theirs run with the privileges of this login */
export function rejectOthersInSchema(db: pg.Client): Promise<void>;
