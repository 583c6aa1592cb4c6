/** The row of a statement that returns exactly one. */
export function onlyRow<T>(rows: readonly T[]): T {
  const [row] = rows;
  if (row === undefined) {
    throw new TypeError('PostgreSQL returned no row.');
  }
  return row;
}
