/**
 * Returns a statement that rewrites a column of `orders`. PostgreSQL does not alter a column that a trigger uses, so the
 * trigger is dropped and created again. A migration must do the same.
 * @param type the new type, with its `USING` expression
 */
export function alterColumn(column: string, type: string): string {
  return `DO $do$
    DECLARE
      definition text := pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'orders_note_update';
    BEGIN
      DROP TRIGGER orders_note_update ON orders;
      ALTER TABLE orders ALTER COLUMN ${column} TYPE ${type};
      EXECUTE definition;
      ALTER TABLE orders ENABLE ALWAYS TRIGGER orders_note_update;
    END $do$`;
}
