import pg from 'pg';
import { connectionError, UserFacingError } from './user-facing-error.mjs';

/** How long a server may take to accept a connection, in milliseconds. `pg` waits for ever unless told. */
export const connectionTimeoutMillis = 10_000;

/** Databases to connect to while creating another one, as the native engine tries them; the last is DigitalOcean's. */
const MAINTENANCE_DATABASES = ['postgres', 'template1', 'defaultdb'];

/**
 * What CREATE DATABASE answers to whoever comes second: 42P04 when the first is done, 23505 when they come at once and
 * meet in the catalogue's unique index.
 */
const DATABASE_EXISTS = ['42P04', '23505'];

/**
 * Runs `work` on a connection of its own.
 *
 * @template T
 * @param {string} url
 * @param {(client: pg.Client) => Promise<T>} work
 * @returns {Promise<T>}
 * @throws {UserFacingError} when the connection cannot be made
 */
export async function withClient(url, work) {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis });
  // A connection that breaks outside a query says so here only, and an unheard error event would end the process.
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
 * Creates the database that the URL names. One that is already there counts as created: several migrators that start
 * together all find it missing, and only one of them creates it.
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
  // FORCE because the server notices the end of our own last connection only after we do.
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
      // This one is not there or not for us; the next may be.
      if (!(error instanceof UserFacingError && ['P1003', 'P1010'].includes(error.code))) throw error;
    }
  }
  const names = MAINTENANCE_DATABASES.join(', ');
  throw new Error(`A database is created or dropped from another one, and none of ${names} takes a connection.`);
}
