import pg from 'pg';
import { connectionError, UserFacingError } from './user-facing-error.mjs';

/** Timeout for connecting, in milliseconds; the default of `pg` is none. */
export const connectionTimeoutMillis = 10_000;

/** Databases to connect to while creating another one, in the order of the native engine; the last is DigitalOcean's. */
const MAINTENANCE_DATABASES = ['postgres', 'template1', 'defaultdb'];

/** Errors of CREATE DATABASE when the database exists: 42P04, or 23505 when two run concurrently. */
const DATABASE_EXISTS = ['42P04', '23505'];

/**
 * Runs `work` on a new connection.
 *
 * @template T
 * @param {string} url
 * @param {(client: pg.Client) => Promise<T>} work
 * @returns {Promise<T>}
 * @throws {UserFacingError} when the connection cannot be made
 */
export async function withClient(url, work) {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis });
  // Without a listener, a connection that breaks outside a query would end the process.
  client.on('error', () => {});
  try {
    await client.connect();
  } catch (error) {
    throw connectionError(error, client);
  }
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/**
 * @param {string} url
 * @throws {UserFacingError} when the connection cannot be made
 */
export async function ensureConnection(url) {
  await withClient(url, async () => {});
}

/**
 * Creates the database in the URL. An existing one is no error, because several migrators may start at once.
 *
 * @param {string} url
 * @returns {Promise<string>} its name
 */
export async function createDatabase(url) {
  const name = databaseName(url);
  await withMaintenanceClient(url, async (client) => {
    try {
      await client.query(`CREATE DATABASE ${pg.escapeIdentifier(name)}`);
    } catch (error) {
      if (!(error instanceof pg.DatabaseError && DATABASE_EXISTS.includes(error.code ?? ''))) throw error;
    }
  });
  return name;
}

/** @param {string} url */
export async function dropDatabase(url) {
  const name = databaseName(url);
  // FORCE: the server may not have noticed yet that our last connection is closed.
  await withMaintenanceClient(url, (client) =>
    client.query(`DROP DATABASE IF EXISTS ${pg.escapeIdentifier(name)} WITH (FORCE)`),
  );
}

/**
 * @param {string} url
 * @param {string} database
 * @returns {string} the same URL for another database of the same server
 */
export function siblingUrl(url, database) {
  const sibling = new URL(url);
  sibling.pathname = `/${encodeURIComponent(database)}`;
  return sibling.href;
}

/**
 * @param {string} url
 * @returns {string} the database's name; as everywhere in PostgreSQL it defaults to the user's
 */
function databaseName(url) {
  const { database } = new pg.Client({ connectionString: url });
  if (!database) throw new Error('The connection string names no database.');
  return database;
}

/**
 * @param {string} url
 * @param {(client: pg.Client) => Promise<unknown>} work
 */
async function withMaintenanceClient(url, work) {
  for (const database of MAINTENANCE_DATABASES) {
    try {
      return await withClient(siblingUrl(url, database), work);
    } catch (error) {
      // Missing or not accessible; try the next one.
      if (!(error instanceof UserFacingError && ['P1003', 'P1010'].includes(error.code))) throw error;
    }
  }
  const names = MAINTENANCE_DATABASES.join(', ');
  throw new Error(`Cannot create or drop the database: none of ${names} accepts a connection.`);
}
