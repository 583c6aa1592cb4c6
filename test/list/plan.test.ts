import type pg from 'pg';
import { loadConfig } from '../../src/config/config.js';
import { Pools } from '../../src/database/pools.js';
import { Metrics } from '../../src/metrics/metrics.js';
import { openPool } from '../helpers/open-pool.js';
import { useTestDatabase } from '../helpers/test-database.js';

const database = useTestDatabase();

it('a large table with ids in random order: pieces and the whole list are read from the index, without a sort', async () => {
  // What PostgreSQL assumes about its memory, instead of a table of a hundred million orders.
  await database.db.query(`ALTER DATABASE ${new URL(database.url).pathname.slice(1)} SET effective_cache_size = '8kB'`);
  await database.db.query(`
    INSERT INTO orders (id, pet_id, quantity)
    SELECT n, 1, 1 FROM generate_series(1, 30000) AS n ORDER BY hashint4(n)`);
  await database.db.query('ANALYZE orders');
  const pools = new Pools(loadConfig({ DATABASE_URL: database.url }), new Metrics());
  const unset = openPool({ connectionString: database.url, max: 1 });
  for (const rows of [
    'ONLY orders WHERE id BETWEEN 16384 AND 32767',
    'ONLY orders WHERE id BETWEEN -9223372036854775808 AND 32767',
    'orders',
  ]) {
    const explain = `EXPLAIN SELECT id, pet_id FROM ${rows} ORDER BY id`;
    const planned = async (pool: pg.Pool): Promise<string> => JSON.stringify((await pool.query(explain)).rows);
    expect(await planned(unset)).toContain('Sort');
    const plan = await planned(pools.list);
    expect(plan).toContain('Index Scan using orders_pkey');
    expect(plan).not.toContain('Sort');
  }
  await unset.end();
  await pools.onApplicationShutdown();
});
