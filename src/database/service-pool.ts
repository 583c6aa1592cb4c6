import { Logger } from '@nestjs/common';
import pg from 'pg';

/** How long a request waits for a connection before it is told that the service is unavailable. Milliseconds. */
const CONNECTION_TIMEOUT_MS = 2_000;

export interface ServicePoolOptions {
  readonly connectionString: string;
  /** Shown in `pg_stat_activity`. */
  readonly name: string;
  readonly connectionsMax: number;
  readonly statementTimeoutMs: number;
  readonly lockTimeoutMs?: number;
  /** How long to wait for an answer to a query, for a server or network that has fallen silent; endless by default. */
  readonly queryTimeoutMs?: number;
  /** Statements that a connection begins with. */
  readonly onConnect?: string;
}

/** A pool of PostgreSQL connections with every wait bounded; the defaults of `pg` wait for ever. */
export function createServicePool(options: ServicePoolOptions): pg.Pool {
  const pool = new pg.Pool({
    connectionString: options.connectionString,
    application_name: `petstore-${options.name}`,
    max: options.connectionsMax,
    connectionTimeoutMillis: CONNECTION_TIMEOUT_MS,
    idleTimeoutMillis: 30_000,
    maxLifetimeSeconds: 3_600,
    keepAlive: true,
    statement_timeout: options.statementTimeoutMs,
    lock_timeout: options.lockTimeoutMs ?? 0,
    idle_in_transaction_session_timeout: options.statementTimeoutMs,
    ...(options.queryTimeoutMs === undefined ? {} : { query_timeout: options.queryTimeoutMs }),
    ...beginningWith(options.onConnect),
  });
  const logger = new Logger('Database');
  // A connection that breaks while somebody holds it fails their query, which is how they hear of it.
  pool.on('connect', (client) => {
    client.on('error', () => undefined);
  });
  // An idle connection that breaks is no request's failure; without a listener it would end the process.
  pool.on('error', (error) => {
    logger.warn(`lost an idle connection: ${error.message}`);
  });
  return pool;
}

/** A part of the pool's configuration. The pool waits for what `onConnect` returns; its types do not say so. */
function beginningWith(statements: string | undefined): object {
  return statements === undefined ? {} : { onConnect: (client: pg.ClientBase) => client.query(statements) };
}
