import pg from 'pg';
import { parseIntoClientConfig } from 'pg-connection-string';

const CONNECTION_TIMEOUT_MS = 5_000;

/**
 * Opens a connection outside the pools.
 * @throws {Error} the first one when the host has several addresses
 */
export async function openClient(connectionString: string, options: pg.ClientConfig = {}): Promise<pg.Client> {
  const client = new pg.Client({
    ...parseIntoClientConfig(connectionString),
    connectionTimeoutMillis: CONNECTION_TIMEOUT_MS,
    ...options,
  });
  // A lost connection fails the current statement; without a listener it would end the process.
  client.on('error', () => undefined);
  try {
    await client.connect();
  } catch (error) {
    void client.end().catch(() => undefined);
    throw error instanceof AggregateError ? (error.errors[0] as Error) : error;
  }
  return client;
}
