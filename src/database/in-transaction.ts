import type pg from 'pg';

/** Runs statements in a transaction, which is rolled back when one of them fails. */
export async function inTransaction<T>(db: pg.ClientBase, work: () => Promise<T>): Promise<T> {
  // What a statement sees does not depend on the default of the role.
  await db.query('BEGIN ISOLATION LEVEL READ COMMITTED');
  try {
    const result = await work();
    await db.query('COMMIT');
    return result;
  } catch (error) {
    // After a lost connection the server rolls back by itself; the first error is the one to report.
    await db.query('ROLLBACK').catch(() => undefined);
    throw error;
  }
}
