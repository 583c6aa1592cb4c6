import { createSecureContext } from 'node:tls';
import pg from 'pg';
import { parse } from 'pg-connection-string';
import { markConnectionErrors } from './postgres-errors.js';

/** How long opening a connection may take. Milliseconds. */
export const CONNECTION_TIMEOUT_MS = 5_000;

/**
 * How to connect to the server of a URL, as `pg` understands it; other parameters of the URL are ignored. Reads the files that it names.
 * @throws {Error} when they cannot be used, or parameters contradict each other
 */
export function connectionOf(url: string): pg.ClientConfig {
  const { user, password, host, port, database, ssl, sslnegotiation, options } = parse(url);
  if (!/^\d{0,5}$/.test(port ?? '') || Number(port) > 65_535) {
    throw new Error(`Invalid port: ${port}`);
  }
  if (typeof ssl === 'object') {
    // Throws when key and certificate do not fit together, as while they are being replaced.
    createSecureContext(ssl as object);
  }
  // The types of the results do not know what `pg` accepts, such as a port of digits.
  return { user, password, host, port, database, ssl, sslnegotiation, options } as object;
}

/**
 * The clients of a pool. Each reads the files that the URL names, so that replaced certificates are used. While one cannot be used,
 * its contents before that are: an error here would end the process, because the pool makes clients in handlers of events.
 */
export function clientsOf(url: string): new (options?: pg.ClientConfig) => pg.Client {
  let latest = connectionOf(url);
  return class extends pg.Client {
    constructor(options?: pg.ClientConfig) {
      try {
        latest = connectionOf(url);
      } catch {
        // A file is being replaced.
      }
      super({ ...latest, ...options });
      // Without a listener an error would end the process. It fails the query or the connection, where it is handled.
      this.on('error', () => undefined);
      markConnectionErrors(this, 'query');
    }
  };
}

/**
 * Opens a connection outside the pools.
 * @throws {Error} the first one when the host has several addresses
 */
export async function openClient(connectionString: string, options: pg.ClientConfig = {}): Promise<pg.Client> {
  const Client = clientsOf(connectionString);
  const client = new Client({ connectionTimeoutMillis: CONNECTION_TIMEOUT_MS, keepAlive: true, ...options });
  try {
    await client.connect();
  } catch (error) {
    client.connection.stream.destroy();
    return firstError(error);
  }
  return client;
}

/** Throws the error of the first address when a host has several. */
export function firstError(error: unknown): never {
  throw error instanceof AggregateError ? (error.errors[0] as Error) : error;
}
