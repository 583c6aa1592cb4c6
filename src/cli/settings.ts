import { loadConfig } from '../config/load-config.js';
import { UsageError } from './usage-error.js';

/**
 * The database a command works on: `DATABASE_URL`, or the embedded database of a service that runs here.
 * @throws {ConfigurationError} @throws {UsageError}
 */
export async function databaseUrl(): Promise<string> {
  const { databaseUrl } = loadConfig(only('NODE_ENV', 'DATABASE_URL', 'DATABASE_URL_FILE'));
  if (databaseUrl !== undefined) {
    return databaseUrl;
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

/** @throws {ConfigurationError} */
export function redisUrls(): readonly string[] {
  return loadConfig(only('REDIS_URL', 'REDIS_URL_FILE')).redisUrls;
}

/** A command reads what it needs: what is wrong with the service's other variables must not keep it from its work. */
export function only(...names: string[]): NodeJS.ProcessEnv {
  return Object.fromEntries(names.map((name) => [name, process.env[name]]));
}
