import { Inject, Injectable, type OnApplicationShutdown } from '@nestjs/common';
import type pg from 'pg';
import { CONFIG, type Config } from '../config/config.js';
import { Metrics } from '../metrics/metrics.js';
import { createServicePool } from './service-pool.js';

/** Connections for everything that is answered at once: keys, cancels, snapshots, health. */
const MAIN_CONNECTIONS_MAX = 10;
const MAIN_STATEMENT_TIMEOUT_MS = 3_000;
/** After this long without an answer the server or the network has fallen silent. */
const MAIN_QUERY_TIMEOUT_MS = 4_000;
/**
 * Everything on these connections looks rows up by key. PostgreSQL plans each statement once for a connection, and not
 * again for each new set of values, which would take it longer than to cancel a dozen orders. Such a plan outlives what the
 * tables were like when it was made, so it reads no table from end to end, however small the table was then.
 */
const MAIN_SETTINGS = 'SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off';
/** A list is bounded by its reader's stall timeout; this is the bound on a reader that never quite stalls. */
const LIST_STATEMENT_TIMEOUT_MS = 600_000;

/**
 * The two pools of the service. Lists have their own, so that however slowly they are read, a cancel finds a connection.
 */
@Injectable()
export class Pools implements OnApplicationShutdown {
  readonly main: pg.Pool;
  readonly list: pg.Pool;

  constructor(@Inject(CONFIG) config: Config, metrics: Metrics) {
    const connectionString = config.databaseUrl;
    if (connectionString === undefined) {
      throw new Error('The database URL is not known yet.');
    }
    this.main = createServicePool({
      connectionString,
      name: 'main',
      connectionsMax: MAIN_CONNECTIONS_MAX,
      // A statement that waits for a lock is bounded by the lock timeout; this bounds what it does besides.
      statementTimeoutMs: MAIN_STATEMENT_TIMEOUT_MS + config.cancelLockTimeoutMs,
      lockTimeoutMs: config.cancelLockTimeoutMs,
      queryTimeoutMs: MAIN_QUERY_TIMEOUT_MS + config.cancelLockTimeoutMs,
      onConnect: MAIN_SETTINGS,
    });
    this.list = createServicePool({
      connectionString,
      name: 'list',
      connectionsMax: config.list.concurrency,
      statementTimeoutMs: LIST_STATEMENT_TIMEOUT_MS,
    });
    metrics.watchPools({ main: this.main, list: this.list });
  }

  /** Runs after the HTTP server has closed: until then requests under way need the pools. */
  async onApplicationShutdown(): Promise<void> {
    await Promise.all([this.main.end(), this.list.end()]);
  }
}
