import type pg from 'pg';
import { SHARED_SERVERS, sharesServers } from '../../prisma/engine/pooler.mjs';
import { asError } from '../common/as-error.js';
import { type Config, ConfigurationError } from '../config/config.js';
import { onlyRow } from './only-row.js';
import { clientsOf, connectionOf, firstError } from './open-client.js';
import { isTlsError } from './postgres-errors.js';

/** As for the pools: a server that takes longer is as good as unreachable. */
const OPTIONS = { application_name: 'petstore-check', connectionTimeoutMillis: 2_000, query_timeout: 2_000 };

const POSTGRES_VERSION_MIN = 14;

const SELECT_SERVER = `
  SELECT current_setting('server_version') AS version, current_setting('transaction_read_only') = 'on' AS "isReadOnly"`;

/** Class of SQLSTATE: password, client certificate, `pg_hba.conf`. */
const INVALID_AUTHORIZATION = '28';

/** The only byte of a server that does not support TLS (PostgreSQL documentation, "SSL Session Encryption"). */
const TLS_REFUSED = 'N';

interface Server {
  readonly version: string;
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

/** What keeps the service and the commands from using their server; `petstore doctor` reports transient problems, too. */
export async function serverProblem(url: string): Promise<ServerProblem | undefined> {
  const clients: pg.Client[] = [];
  const tls = { isRefused: false };
  try {
    // Reads the files that the URL names.
    connectionOf(url);
  } catch (error) {
    return fatal(`must have valid parameters: ${asError(error).message}`);
  }
  const Client = clientsOf(url);
  const connect = async (): Promise<pg.Client> => {
    const client = new Client(OPTIONS);
    clients.push(client);
    client.connection.stream.once('data', (data: Buffer) => {
      tls.isRefused = client.ssl && data.toString('latin1') === TLS_REFUSED;
    });
    await client.connect().catch(firstError);
    return client;
  };
  try {
    const { version, isReadOnly } = onlyRow((await (await connect()).query<Server>(SELECT_SERVER)).rows);
    if (Number.parseInt(version) < POSTGRES_VERSION_MIN) {
      return fatal(`must point to PostgreSQL ${POSTGRES_VERSION_MIN} or later (got ${version})`);
    }
    if (await sharesServers(connect)) {
      return { message: SHARED_SERVERS, isFatal: true };
    }
    return isReadOnly
      ? transient(
          'must point to a writable primary server (got a standby, or default_transaction_read_only is on for the server, ' +
            'database or role)',
        )
      : undefined;
  } catch (error) {
    return tls.isRefused
      ? fatal('must point to a server with which TLS can be established (got one that does not support it)')
      : connectionProblem(error as Error & { readonly code?: string });
  } finally {
    // Also those whose TLS or login has failed on this side: `end` would wait for the server.
    clients.forEach((client) => client.connection.stream.destroy());
  }
}

const fatal = (message: string): ServerProblem => ({ message: `DATABASE_URL ${message}`, isFatal: true });
const transient = (message: string): ServerProblem => ({ message: `DATABASE_URL ${message}`, isFatal: false });

/** Errors of TLS and logins persist; with any other the server is unavailable. */
function connectionProblem({ code, message }: Error & { readonly code?: string }): ServerProblem {
  if (isTlsError(code)) {
    return fatal(`must point to a server with which TLS can be established: ${message} (${code})`);
  }
  return code?.startsWith(INVALID_AUTHORIZATION)
    ? fatal(`must contain a login that the server accepts: ${message} (${code})`)
    : transient(`is unreachable: ${message}`);
}
