import type pg from 'pg';

/** Makes ANALYZE of the orders fail, and nothing else. @returns a function that undoes it */
export async function failAnalyze(db: pg.Pool): Promise<() => Promise<void>> {
  await db.query(`
    CREATE FUNCTION fail_analyze(value bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$
    BEGIN
      IF current_query() LIKE 'ANALYZE orders%' THEN RAISE 'no statistics today'; END IF;
      RETURN value;
    END $$;
    CREATE INDEX fails_analyze ON orders (fail_analyze(pet_id))`);
  return async () => {
    await db.query('DROP INDEX fails_analyze; DROP FUNCTION fail_analyze(bigint)');
  };
}
