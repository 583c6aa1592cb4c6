import { loadConfig } from '../config/load-config.js';
import { UsageError } from './usage-error.js';

/**
 * The database a command works on: `DATABASE_URL`, or the embedded database of a service that runs here.
 * @throws {ConfigurationError} @throws {UsageError}
 */
export async function databaseUrl(): Promise<string> {
  const config = loadConfig(process.env);
  if (config.databaseUrl !== undefined) {
    return config.databaseUrl;
  }
  const { runningEmbeddedDatabaseUrl } = await import('../embedded/embedded-service.js');
  const url = runningEmbeddedDatabaseUrl();
  if (url === undefined) {
    throw new UsageError(
      'DATABASE_URL is not set and no service with an embedded database runs here ("npm start" starts one).',
    );
  }
  return url;
}
