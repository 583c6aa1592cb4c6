import pg from 'pg';

/**
 * A pool whose connections may break: that fails only the query that uses one. A server that stops also ends those that are
 * still closing after `end`, and without a handler that error would end the test run.
 */
export function openPool(config: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool(config);
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  return pool;
}
