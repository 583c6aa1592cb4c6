import pg from 'pg';
import { type Config, ConfigurationError } from '../config/config.js';
import { isTlsError } from './postgres-errors.js';

const CONNECTION_TIMEOUT_MS = 5_000;
/** Connections that are compared to find out whether each keeps its server process. */
const COMPARED = 3;

export const POSTGRES_VERSION_MIN = 14;

const SELECT_SERVER = `SELECT current_setting('server_version') AS version, pg_backend_pid() AS process`;

/** Class of SQLSTATE: password, client certificate, `pg_hba.conf`. */
const INVALID_AUTHORIZATION = '28';

type ConnectionError = Error & { readonly code?: string; readonly syscall?: string; readonly path?: string };

interface Server {
  readonly version: string;
  readonly process: number;
}

/**
 * Checks at start what the service requires of its servers. An unreachable server passes: the service starts without it.
 * @throws {ConfigurationError}
 */
export async function checkServer(config: Config): Promise<void> {
  const { databaseUrl, databaseDirectUrl, databaseReplicaUrl, transactionPooler } = config;
  const problems = await Promise.all([
    problemsOf('DATABASE_URL', databaseUrl, transactionPooler),
    problemsOf('DATABASE_DIRECT_URL', databaseDirectUrl, false),
    problemsOf('DATABASE_REPLICA_URL', databaseReplicaUrl, transactionPooler),
  ]);
  if (problems.flat().length > 0) {
    throw new ConfigurationError(problems.flat());
  }
}

async function problemsOf(variable: string, url: string | undefined, transactionPooler: boolean): Promise<string[]> {
  if (url === undefined) {
    return [];
  }
  const clients: pg.Client[] = [];
  const connect = async (): Promise<pg.Client> => {
    const client = new pg.Client({
      connectionString: url,
      application_name: 'petstore-check',
      connectionTimeoutMillis: CONNECTION_TIMEOUT_MS,
      query_timeout: CONNECTION_TIMEOUT_MS,
    });
    client.on('error', () => undefined);
    await client.connect();
    clients.push(client);
    return client;
  };
  try {
    const client = await connect();
    const { version, process } = await serverOf(client);
    if (Number.parseInt(version) < POSTGRES_VERSION_MIN) {
      return [`${variable} must lead to PostgreSQL ${POSTGRES_VERSION_MIN} or later (got ${version})`];
    }
    // A pooler invents process ids.
    const isPooled = (client as unknown as { processID: number }).processID !== process;
    if (isPooled && !transactionPooler) {
      while (clients.length < COMPARED) {
        await connect();
      }
      return (await keepTheirServers(clients))
        ? []
        : [
            `${variable} leads to a connection pooler that does not keep a server connection for each client. Set ` +
              'DATABASE_POOLER=transaction and DATABASE_DIRECT_URL, or use session pooling',
          ];
    }
    return [];
  } catch (error) {
    return [connectionProblem(variable, error as ConnectionError)].filter((problem) => problem !== undefined);
  } finally {
    await Promise.all(clients.map((client) => client.end().catch(() => undefined)));
  }
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
  const { rows } = await client.query<Server>(SELECT_SERVER);
  const [server] = rows;
  if (server === undefined) {
    throw new Error('PostgreSQL returned no row.');
  }
  return server;
}

/** The problem with an error that will not go away by itself; undefined while the server is unavailable. */
function connectionProblem(variable: string, { code, syscall, path, message }: ConnectionError): string | undefined {
  if (syscall === 'open') {
    return `${variable} must name files that can be read (got "${path}": ${code})`;
  }
  if (isTlsError(code)) {
    return `${variable} must lead to a server with which TLS can be established: ${message} (${code})`;
  }
  return code?.startsWith(INVALID_AUTHORIZATION)
    ? `${variable} must contain a login that the server accepts: ${message} (${code})`
    : undefined;
}
