import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { migrate } from '../../dist/cli/embedded/migrate.js';
import { PostgresServer } from '../../dist/cli/embedded/postgres-server.js';
import { Database } from './database.mjs';
import { startRedis } from './redis.mjs';

const CLI = fileURLToPath(new URL('../../dist/cli.js', import.meta.url));

/**
 * Durable, as PostgreSQL's defaults are: a commit waits for the disk. The other settings keep background work out of the
 * measured spans, where it would hit contestants at random: no automatic vacuum (the benchmark vacuums between runs) and
 * no checkpoint by time or volume. The table fits into memory.
 */
export const POSTGRES_SETTINGS = {
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  shared_buffers: '512MB',
  autovacuum: 'off',
  checkpoint_timeout: '1h',
  max_wal_size: '16GB',
  max_connections: '200',
};

const TEMPLATE = 'bench_template';
const CHECKED_ORDERS = '1000';
const NEVER_REACHED = '2000000000';

/**
 * PostgreSQL and Redis in a temporary folder. The databases are created on first use, one per number of orders and purpose: all
 * contestants read the same rows, and a cancel run never changes the rows of a list run.
 */
export class Environment {
  #databases = new Map();

  async start() {
    this.folder = mkdtempSync(join(tmpdir(), 'petstore-bench-'));
    // PostgreSQL may run as another user, who needs access to its folder.
    chmodSync(this.folder, 0o755);
    this.redis = await startRedis(this.folder);
    this.postgres = await PostgresServer.start({ folder: this.folder, settings: POSTGRES_SETTINGS });
    const template = await Database.create(this.postgres, TEMPLATE);
    await migrate(template.url);
    const [unlimited, limited] = [NEVER_REACHED, '1'].map((quota) => issueKey(template.url, quota));
    /** One without a practical limit, one that may make a single request a day, and one that is not stored. */
    this.keys = { unlimited, limited, unknown: `${unlimited.slice(0, -4)}none` };
    await template.client.end();
  }

  /** Seeded orders of every status. */
  forLists(orders) {
    return this.#once(`bench_list_${orders}`, async ({ url, client }) => {
      petstore(url, 'seed', '--force', '--orders', String(orders));
      await client.query('VACUUM (ANALYZE) orders');
    });
  }

  /**
   * Orders that are all pending. Half of each page is free, so that a cancel finds room on its page in every round. Each
   * page is written once after a checkpoint: the first change of a page after a checkpoint writes the whole page to the
   * log, which only the first contestant would pay for.
   */
  forCancels(orders) {
    return this.#once(`bench_cancel_${orders}`, async ({ url, client }) => {
      await client.query('ALTER TABLE orders SET (fillfactor = 50)');
      petstore(url, 'seed', '--force', '--orders', String(orders));
      await client.query('CHECKPOINT');
      await client.query("UPDATE orders SET status = 'pending', complete = false, cancelled_at = NULL");
      await client.query('VACUUM (ANALYZE) orders');
    });
  }

  /** Some seeded orders, for the check of one contestant. */
  forCheck(number) {
    return this.#once(`bench_check_${number}`, ({ url }) =>
      petstore(url, 'seed', '--force', '--orders', CHECKED_ORDERS),
    );
  }

  async stop() {
    await Promise.all(Array.from(this.#databases.values(), ({ client }) => client.end()));
    await this.postgres?.stop();
    await this.redis?.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async #once(name, fill) {
    let database = this.#databases.get(name);
    if (database === undefined) {
      database = await Database.create(this.postgres, `${name} TEMPLATE ${TEMPLATE} STRATEGY file_copy`);
      this.#databases.set(name, database);
      await fill(database);
    }
    return database;
  }
}

/** Runs a command of this service. */
function petstore(databaseUrl, ...args) {
  const env = { ...process.env, DATABASE_URL: databaseUrl };
  return execFileSync(process.execPath, [CLI, ...args], { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
}

function issueKey(databaseUrl, quota) {
  const quotas = ['--plan', 'enterprise', '--per-minute', quota, '--per-day', quota];
  return JSON.parse(petstore(databaseUrl, 'keys', 'issue', '--name', `bench ${quota}`, ...quotas, '--json')).key;
}
