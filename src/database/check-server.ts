import type pg from 'pg';
import { asError } from '../common/as-error.js';
import { type Config, ConfigurationError } from '../config/config.js';
import { onlyRow } from './only-row.js';
import { connectionOf, openClient } from './open-client.js';
import { isTlsError } from './postgres-errors.js';

/** As for the pools: a server that takes longer is as good as unreachable. */
const TIMEOUTS = { connectionTimeoutMillis: 2_000, query_timeout: 2_000 };
/** Connections that are compared to find out whether each keeps its server process. */
const COMPARED = 3;

const POSTGRES_VERSION_MIN = 14;

const SELECT_SERVER = `
  SELECT current_setting('server_version') AS version, pg_backend_pid() AS process,
         current_setting('transaction_read_only') = 'on' AS "isReadOnly"`;

/** Class of SQLSTATE: password, client certificate, `pg_hba.conf`. */
const INVALID_AUTHORIZATION = '28';

type ConnectionError = Error & { readonly code?: string };

interface Server {
  readonly version: string;
  readonly process: number;
  readonly isReadOnly: boolean;
}

export interface ServerProblem {
  /** Begins with the variable and says what is expected. */
  readonly message: string;
  /** The service does not start: the problem does not go away by itself. */
  readonly isFatal: boolean;
}

/**
 * Checks at start what the service requires of its server. An unreachable server passes: the service starts without it.
 * @throws {ConfigurationError}
 */
export async function checkServer({ databaseUrl }: Config): Promise<void> {
  const problem = databaseUrl === undefined ? undefined : await serverProblem(databaseUrl);
  if (problem?.isFatal === true) {
    throw new ConfigurationError([problem.message]);
  }
}

/** What keeps the service from using its server; `petstore doctor` reports transient problems, too. */
export async function serverProblem(url: string): Promise<ServerProblem | undefined> {
  try {
    connectionOf(url);
  } catch (error) {
    return fatal(`must have valid parameters: ${asError(error).message}`);
  }
  const clients: pg.Client[] = [];
  const connect = async (): Promise<pg.Client> => {
    const client = await openClient(url, { application_name: 'petstore-check', ...TIMEOUTS });
    clients.push(client);
    return client;
  };
  try {
    const client = await connect();
    const server = await serverOf(client);
    if (Number.parseInt(server.version) < POSTGRES_VERSION_MIN) {
      return fatal(`must point to PostgreSQL ${POSTGRES_VERSION_MIN} or later (got ${server.version})`);
    }
    if (hasPooler(client, server.process)) {
      while (clients.length < COMPARED) {
        await connect();
      }
      if (!(await keepTheirServers(clients))) {
        return fatal(
          'must point to PostgreSQL itself, or to a pooler that keeps a server connection for each client, like pool_mode = session ' +
            'of PgBouncer (got a pooler that does not)',
        );
      }
    }
    return server.isReadOnly
      ? transient(
          'must point to a writable primary server (got a standby, or default_transaction_read_only is on for the server, ' +
            'database or role)',
        )
      : undefined;
  } catch (error) {
    return connectionProblem(error as ConnectionError);
  } finally {
    await Promise.all(clients.map((client) => client.end().catch(() => undefined)));
  }
}

const fatal = (message: string): ServerProblem => ({ message: `DATABASE_URL ${message}`, isFatal: true });
const transient = (message: string): ServerProblem => ({ message: `DATABASE_URL ${message}`, isFatal: false });

/** A pooler gives its clients process ids of its own. `processID` is not in the types of `pg`. */
export function hasPooler(client: pg.Client, process: number): boolean {
  return (client as unknown as { processID: number }).processID !== process;
}

/** Whether no two connections use the same server process and none changes it, as with a pooler in session mode. */
async function keepTheirServers(clients: readonly pg.Client[]): Promise<boolean> {
  const processes = new Map<pg.Client, number>();
  // Back and forth, because some poolers take turns with their servers.
  for (const client of [...clients, ...clients.toReversed(), ...clients]) {
    const { process } = await serverOf(client);
    if ((processes.get(client) ?? process) !== process) {
      return false;
    }
    processes.set(client, process);
  }
  return new Set(processes.values()).size === clients.length;
}

async function serverOf(client: pg.Client): Promise<Server> {
  return onlyRow((await client.query<Server>(SELECT_SERVER)).rows);
}

/** Errors of TLS and logins persist; with any other the server is unavailable. */
function connectionProblem({ code, message }: ConnectionError): ServerProblem {
  if (isTlsError(code)) {
    return fatal(`must point to a server with which TLS can be established: ${message} (${code})`);
  }
  return code?.startsWith(INVALID_AUTHORIZATION)
    ? fatal(`must contain a login that the server accepts: ${message} (${code})`)
    : transient(`is unreachable: ${message}`);
}
