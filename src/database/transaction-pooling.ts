import type pg from 'pg';

/**
 * Makes each query of a pool a transaction that begins with its settings. Behind a pooler that assigns a server connection
 * to each transaction (PgBouncer's `pool_mode = transaction`), nothing may outlive a transaction: no setting and no
 * prepared statement.
 * @param settings statements that apply to one transaction
 */
export function queryInTransactions(pool: pg.Pool, settings: string): void {
  const query = async (statement: string | pg.QueryConfig, values?: unknown[]): Promise<pg.QueryResult> => {
    const client = await pool.connect();
    try {
      await client.query(`BEGIN ISOLATION LEVEL READ COMMITTED; ${settings}`);
      const config = typeof statement === 'string' ? { text: statement } : { ...statement };
      delete config.name;
      const result = await client.query(config, values);
      await client.query('COMMIT');
      client.release();
      return result;
    } catch (error) {
      // Closes the connection, so that the pooler rolls back.
      client.release(error as Error);
      throw error;
    }
  };
  pool.query = query as typeof pool.query;
}
