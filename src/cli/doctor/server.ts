import type pg from 'pg';
import type { Clock } from '../../common/clock.js';
import type { Config } from '../../config/config.js';
import { POSTGRES_VERSION_MIN } from '../../database/check-server.js';
import { connectionsPerProcess } from '../../database/pools.js';
import { clockFinding } from './clock.js';
import { error, type Finding, type Findings, notChecked, ok, warning } from './finding.js';
import { rowOf } from './row-of.js';

export const SERVER_CHECKS = ['database', 'PostgreSQL version', 'connection limit', 'pooler', 'clock of PostgreSQL'];

/** For `petstore` commands, migrations and an operator's psql. */
const COMMAND_CONNECTIONS = 10;
const READ_ONLY_REMEDY = 'Set DATABASE_URL to the primary server: cancels need to write.';

/** The PostgreSQL server and this connection to it. */
export interface Server {
  readonly address: string;
  readonly isEmbedded: boolean;
  readonly version: string;
  readonly versionNumber: number;
  readonly database: string;
  readonly isStandby: boolean;
  readonly isReadOnly: boolean;
  /** This host's clock minus the server's. */
  readonly clockDifferenceMs: number;
  /** The smallest of the limits of server, database and role, without reserved connections. */
  readonly connectionLimit: number;
  /** Running processes of the service. */
  readonly processes: number;
  readonly isPooled: boolean;
}

const SERVER = `
  SELECT current_setting('server_version') AS version,
         current_setting('server_version_num')::integer AS "versionNumber",
         current_database() AS database,
         pg_is_in_recovery() AS "isStandby",
         current_setting('default_transaction_read_only') = 'on' AS "isReadOnly",
         pg_backend_pid() AS "backendId",
         least(
           current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
             - coalesce(current_setting('reserved_connections', true)::integer, 0),
           (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = session_user),
           (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database())
         ) AS "connectionLimit",
         (SELECT count(*)::integer FROM pg_stat_activity
          WHERE datname = current_database() AND application_name = 'petstore-listener') AS processes`;

export async function readServer(db: pg.Client, isEmbedded: boolean, clock: Clock): Promise<Server> {
  type Row = Omit<Server, 'address' | 'isEmbedded' | 'clockDifferenceMs' | 'isPooled'> & { backendId: number };
  const { backendId, ...server } = await rowOf<Row>(db, SERVER);
  const sentMs = clock.now();
  const { nowMs } = await rowOf<{ nowMs: number }>(
    db,
    'SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS "nowMs"',
  );
  return {
    ...server,
    isEmbedded,
    address: `${db.host}:${db.port}`,
    // The server read its clock halfway between the two readings.
    clockDifferenceMs: (sentMs + clock.now()) / 2 - nowMs,
    // A pooler gives its clients process ids of its own. Not in the types of pg.
    isPooled: (db as unknown as { processID: number }).processID !== backendId,
  };
}

/** @param startProblems what the service rejects at its start: an old version, a pooler without the setting for it */
export function serverFindings(server: Server, config: Config, startProblems: readonly string[]): Findings {
  const { version, versionNumber, clockDifferenceMs } = server;
  return {
    database: databaseFinding(server),
    'PostgreSQL version':
      Math.floor(versionNumber / 10_000) >= POSTGRES_VERSION_MIN
        ? ok(version)
        : error(`${version} is too old`, `Upgrade PostgreSQL to ${POSTGRES_VERSION_MIN} or newer.`),
    'connection limit': connectionsFinding(server, config),
    pooler: poolerFinding(server, config, startProblems),
    'clock of PostgreSQL': clockFinding('PostgreSQL', clockDifferenceMs),
  };
}

function databaseFinding({ address, database, isEmbedded, isStandby, isReadOnly }: Server): Finding {
  const where = `${isEmbedded ? 'embedded, ' : ''}"${database}" at ${address}`;
  if (isStandby) {
    return error(`${where} is a standby, which is read-only`, READ_ONLY_REMEDY);
  }
  return isReadOnly
    ? error(
        `${where} is read-only by default_transaction_read_only`,
        `${READ_ONLY_REMEDY} If it is the primary, reset default_transaction_read_only for the server, database or role.`,
      )
    : ok(`${where}, writable`);
}

function connectionsFinding({ connectionLimit, processes, isPooled }: Server, config: Config): Finding {
  if (isPooled) {
    return notChecked('the pooler limits the connections');
  }
  const perProcess = connectionsPerProcess(config);
  const running = Math.max(1, processes);
  // One more process runs during a rolling update.
  const needed = (running + 1) * perProcess + COMMAND_CONNECTIONS;
  const figures = `${connectionLimit} connections for ${processes} running (${perProcess} each)`;
  if (connectionLimit >= needed) {
    return ok(figures);
  }
  const remedy = `Raise max_connections (or the CONNECTION LIMIT of the role or database) so that ${needed} are available, or lower LIST_CONCURRENCY.`;
  return connectionLimit < running * perProcess
    ? error(`only ${figures}`, remedy)
    : warning(`${figures} leave too few for a rolling update`, remedy);
}

function poolerFinding({ isPooled }: Server, { transactionPooler }: Config, startProblems: readonly string[]): Finding {
  if (startProblems.length > 0) {
    return error(
      'a server, or a pooler in front of it, that the service rejects at start',
      'Correct it; the service does not start.',
      startProblems,
    );
  }
  if (!isPooled) {
    return transactionPooler
      ? warning(
          'none, although DATABASE_POOLER is set',
          'Remove DATABASE_POOLER: its transactions cost every statement two round trips.',
        )
      : ok('none');
  }
  return ok(transactionPooler ? 'transaction pooling' : 'session pooling');
}
