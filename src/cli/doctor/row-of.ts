import type pg from 'pg';

/** The only row of a query. */
export async function rowOf<T extends pg.QueryResultRow>(
  db: pg.Client,
  sql: string,
  parameters: readonly unknown[] = [],
): Promise<T> {
  const { rows } = await db.query<T>(sql, [...parameters]);
  const [row] = rows;
  if (row === undefined) {
    throw new Error('The database returned no row.');
  }
  return row;
}
