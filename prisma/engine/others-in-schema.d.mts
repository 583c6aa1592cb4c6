import type pg from 'pg';

/** Who else may create in the schema, and the statements that end it. */
export function othersInSchema(db: pg.ClientBase): Promise<{ message: string; remedy: string } | undefined>;
