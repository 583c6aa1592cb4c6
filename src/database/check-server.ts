import type pg from 'pg';
import { type Config, ConfigurationError } from '../config/config.js';
import { onlyRow } from './only-row.js';
import { openClient } from './open-client.js';
import { isTlsError } from './postgres-errors.js';

const QUERY_TIMEOUT_MS = 5_000;
/** Connections that are compared to find out whether each keeps its server process. */
const COMPARED = 3;

const POSTGRES_VERSION_MIN = 14;

const SELECT_SERVER = `
  SELECT current_setting('server_version') AS version, pg_backend_pid() AS process, pg_is_in_recovery() AS "isStandby",
         current_setting('default_transaction_read_only') = 'on' AS "isReadOnly"`;

/** Class of SQLSTATE: password, client certificate, `pg_hba.conf`. */
const INVALID_AUTHORIZATION = '28';

type ConnectionError = Error & { readonly code?: string; readonly syscall?: string; readonly path?: string };

interface Server {
  readonly version: string;
  readonly process: number;
  readonly isStandby: boolean;
  readonly isReadOnly: boolean;
}

export interface ServerProblem {
  readonly variable: string;
  /** Begins with the variable and says what is expected. */
  readonly message: string;
  /** The service does not start: the problem does not go away by itself. */
  readonly isFatal: boolean;
}

/**
 * Checks at start what the service requires of its servers. An unreachable server passes: the service starts without it.
 * @throws {ConfigurationError}
 */
export async function checkServer(config: Config): Promise<void> {
  const fatal = (await serverProblems(config)).filter(({ isFatal }) => isFatal);
  if (fatal.length > 0) {
    throw new ConfigurationError(fatal.map(({ message }) => message));
  }
}

/** What keeps the service from using the servers of its URLs; `petstore doctor` reports the passing problems, too. */
export async function serverProblems(config: Config): Promise<ServerProblem[]> {
  const { databaseUrl, databaseDirectUrl, databaseReplicaUrl, transactionPooler } = config;
  const problems = await Promise.all([
    problemsOf('DATABASE_URL', databaseUrl, transactionPooler),
    problemsOf('DATABASE_DIRECT_URL', databaseDirectUrl, false),
    problemsOf('DATABASE_REPLICA_URL', databaseReplicaUrl, transactionPooler),
  ]);
  return problems.flat();
}

async function problemsOf(
  variable: string,
  url: string | undefined,
  transactionPooler: boolean,
): Promise<ServerProblem[]> {
  if (url === undefined) {
    return [];
  }
  const clients: pg.Client[] = [];
  const connect = async (): Promise<pg.Client> => {
    const client = await openClient(url, { application_name: 'petstore-check', query_timeout: QUERY_TIMEOUT_MS });
    clients.push(client);
    return client;
  };
  const problem = (message: string, isFatal: boolean): ServerProblem[] => [
    { variable, message: `${variable} ${message}`, isFatal },
  ];
  try {
    const client = await connect();
    const server = await serverOf(client);
    if (Number.parseInt(server.version) < POSTGRES_VERSION_MIN) {
      return problem(`must lead to PostgreSQL ${POSTGRES_VERSION_MIN} or later (got ${server.version})`, true);
    }
    const isPooled = hasPooler(client, server.process);
    if (isPooled && !transactionPooler) {
      while (clients.length < COMPARED) {
        await connect();
      }
      if (!(await keepTheirServers(clients))) {
        return problem(
          'leads to a connection pooler that does not keep a server connection for each client. Set ' +
            'DATABASE_POOLER=transaction and DATABASE_DIRECT_URL, or use session pooling',
          true,
        );
      }
    }
    if (transactionPooler && !isPooled) {
      const message = 'DATABASE_POOLER must not be set without a pooler: it costs every statement two round trips';
      return [{ variable: 'DATABASE_POOLER', message, isFatal: false }];
    }
    return roleProblem(variable, server).flatMap((message) => problem(message, false));
  } catch (error) {
    const fatal = connectionProblem(error as ConnectionError);
    return fatal === undefined ? problem(`is unreachable: ${(error as Error).message}`, false) : problem(fatal, true);
  } finally {
    await Promise.all(clients.map((client) => client.end().catch(() => undefined)));
  }
}

/** A pooler gives its clients process ids of its own. `processID` is not in the types of `pg`. */
export function hasPooler(client: pg.Client, process: number): boolean {
  return (client as unknown as { processID: number }).processID !== process;
}

function roleProblem(variable: string, { isStandby, isReadOnly }: Server): string[] {
  if (variable === 'DATABASE_REPLICA_URL') {
    return isStandby ? [] : ['must lead to a standby (got a primary server)'];
  }
  if (isStandby) {
    return ['must lead to the primary server (got a standby)'];
  }
  return isReadOnly
    ? ['must lead to a server that can be written (reset default_transaction_read_only for server, database or role)']
    : [];
}

/** Whether no two connections use the same server process and none changes it, as with a pooler in session mode. */
async function keepTheirServers(clients: readonly pg.Client[]): Promise<boolean> {
  const processes = new Set<number>();
  // Back and forth, because some poolers take turns with their servers.
  for (const client of [...clients, ...clients.toReversed(), ...clients]) {
    processes.add((await serverOf(client)).process);
  }
  return processes.size === clients.length;
}

async function serverOf(client: pg.Client): Promise<Server> {
  return onlyRow((await client.query<Server>(SELECT_SERVER)).rows);
}

/** The problem with an error that will not go away by itself; undefined while the server is unavailable. */
function connectionProblem({ code, syscall, path, message }: ConnectionError): string | undefined {
  if (syscall === 'open') {
    return `must name files that can be read (got "${path}": ${code})`;
  }
  if (isTlsError(code)) {
    return `must lead to a server with which TLS can be established: ${message} (${code})`;
  }
  return code?.startsWith(INVALID_AUTHORIZATION)
    ? `must contain a login that the server accepts: ${message} (${code})`
    : undefined;
}
