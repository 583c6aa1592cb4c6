import { Inject, Injectable, Logger, type OnApplicationShutdown } from '@nestjs/common';
import pg from 'pg';
import { CONFIG, type Config } from '../config/config.js';
import { Metrics } from '../metrics/metrics.js';
import { clientsOf } from './open-client.js';
import { markConnectionErrors } from './postgres-errors.js';
import { sessionSettings, type Settings } from './session-settings.js';

/** How long a request waits for a connection. Milliseconds, as are all durations here. */
const ACQUIRE_TIMEOUT_MS = 2_000;

/** Connections for every short statement: key look-ups, cancels, the version of the list, usage, health. */
const MAIN_CONNECTIONS_MAX = 10;
const MAIN_STATEMENT_TIMEOUT_MS = 3_000;
/** Longer than the server's own timeouts: it is for a server or network that no longer responds. */
const MAIN_QUERY_TIMEOUT_MS = 4_000;
/**
 * Statements of requests look rows up by key. PostgreSQL plans each once per connection; planning anew for each set of values
 * would take longer than cancelling a dozen orders. A kept plan may have been made while the table was small, so it
 * must not read a whole table even then.
 */
const MAIN_PLANNING = { plan_cache_mode: 'force_generic_plan', enable_seqscan: 'off' };

/** Bounds one `COPY` and a pause between two. A client is bounded by `STREAM_MAX_MS`. */
const LIST_STATEMENT_TIMEOUT_MS = 600_000;
const LIST_SETTINGS = {
  // Lists are read in the order of the index, so the first rows come at once. A sort reads everything before it returns a
  // row, on a large list for longer than the response timeout; where ids and pages correlate little, or the table has no
  // statistics, PostgreSQL estimates that it is cheaper.
  enable_sort: 'off',
  statement_timeout: LIST_STATEMENT_TIMEOUT_MS,
  idle_in_transaction_session_timeout: LIST_STATEMENT_TIMEOUT_MS,
};

/**
 * The pools of the service. Lists have their own, so that slow lists leave the connections for cancels free.
 */
@Injectable()
export class Pools implements OnApplicationShutdown {
  /** For short statements. */
  readonly main: pg.Pool;
  /** For lists that are streamed. */
  readonly list: pg.Pool;
  /** For the image of the list, which thus never waits for them. */
  readonly image: pg.Pool;

  constructor(@Inject(CONFIG) config: Config, metrics: Metrics) {
    if (config.databaseUrl === undefined) {
      throw new Error('The database URL is not set.');
    }
    const Client = clientsOf(config.databaseUrl);
    const statementTimeoutMs = MAIN_STATEMENT_TIMEOUT_MS + config.cancelLockTimeoutMs;
    this.main = createPool(
      {
        Client,
        application_name: 'petstore-main',
        max: MAIN_CONNECTIONS_MAX,
        query_timeout: MAIN_QUERY_TIMEOUT_MS + config.cancelLockTimeoutMs,
      },
      {
        lock_timeout: config.cancelLockTimeoutMs,
        statement_timeout: statementTimeoutMs,
        idle_in_transaction_session_timeout: statementTimeoutMs,
        ...MAIN_PLANNING,
      },
    );
    const list = { Client, application_name: 'petstore-list' };
    this.list = createPool({ ...list, max: config.list.concurrency }, LIST_SETTINGS);
    this.image = createPool({ ...list, max: 1 }, LIST_SETTINGS);
    metrics.watchPools({ main: this.main, list: this.list, image: this.image });
  }

  /** Runs after the HTTP server has closed: in-flight requests need the pools. */
  async onApplicationShutdown(): Promise<void> {
    await Promise.all([this.main.end(), this.list.end(), this.image.end()]);
  }
}

/** A pool with every wait bounded on both sides; the defaults of `pg` wait without bound. */
function createPool(options: pg.PoolConfig, settings: Settings): pg.Pool {
  const begin = { text: sessionSettings(settings), query_timeout: ACQUIRE_TIMEOUT_MS };
  const pool = new pg.Pool({
    connectionTimeoutMillis: ACQUIRE_TIMEOUT_MS,
    idleTimeoutMillis: 30_000,
    // Soon after a switchover every connection leads to the new primary.
    maxLifetimeSeconds: 300,
    keepAlive: true,
    ...options,
    // The pool waits for the promise; its type says `void`.
    onConnect: (client: pg.ClientBase) => client.query(begin) as unknown as undefined,
  });
  markConnectionErrors(pool, 'query');
  markConnectionErrors(pool, 'connect');
  const logger = new Logger('Database');
  // Without a listener an idle connection that breaks would end the process.
  pool.on('error', (error) => {
    // A pool that ends does not wait until the server has closed its connections.
    if (!pool.ending) {
      logger.warn(`lost an idle connection: ${error.message}`);
    }
  });
  return pool;
}
