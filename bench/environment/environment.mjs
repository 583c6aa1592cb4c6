import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PostgresServer } from '../../dist/cli/embedded/postgres-server.js';
import { Databases } from './databases.mjs';
import { makeKeys } from './keys.mjs';
import { startRedis } from './redis.mjs';

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

/** PostgreSQL, Redis, databases and keys for the benchmark, in a temporary folder. */
export class Environment {
  keys = makeKeys();

  async start() {
    this.folder = mkdtempSync(join(tmpdir(), 'petstore-bench-'));
    // PostgreSQL may run as another user, who needs access to its folder.
    chmodSync(this.folder, 0o755);
    this.redis = await startRedis(this.folder);
    this.postgres = await PostgresServer.start({ folder: this.folder, settings: POSTGRES_SETTINGS });
    this.databases = new Databases(this.postgres, this.keys);
    await this.databases.prepare();
  }

  async stop() {
    await this.databases?.close().catch(() => undefined);
    await this.postgres?.stop();
    await this.redis?.stop();
    if (this.folder !== undefined) {
      rmSync(this.folder, { recursive: true, force: true });
    }
  }
}
