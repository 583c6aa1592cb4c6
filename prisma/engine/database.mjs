import pg from 'pg';
import { describe, PrismaError } from './errors.mjs';

/** Timeout for connecting, in milliseconds; the default of `pg` is none. */
const connectionTimeoutMillis = 10_000;

/** SQLSTATE codes. */
const UNKNOWN_DATABASE = '3D000';
/** Errors of CREATE DATABASE when the database exists: the second when two run concurrently. */
const DATABASE_EXISTS = ['42P04', '23505'];

/**
 * @param {string} url
 * @throws {PrismaError} when the server or the database cannot be reached
 */
export async function connect(url) {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis });
  // Without a listener, a connection that breaks outside a query would end the process; the next query reports it.
  client.on('error', () => {});
  try {
    await client.connect();
    return client;
  } catch (error) {
    if (!(error instanceof pg.DatabaseError)) {
      const address = `${client.host}:${client.port}`;
      throw new PrismaError('P1001', `Can't reach database server at \`${address}\`: ${describe(error)}`);
    }
    if (error.code === UNKNOWN_DATABASE) {
      throw new PrismaError('P1003', `Database \`${client.database}\` does not exist`);
    }
    throw error;
  }
}

/** @param {string} url */
export async function ensureConnection(url) {
  await (await connect(url)).end();
}

/**
 * Creates the database in the URL. An existing one is no error, because several migrators may start at once.
 *
 * @param {string} url
 */
export async function createDatabase(url) {
  await onServer(url, (name) => [`CREATE DATABASE ${name}`]).catch((error) => {
    if (!DATABASE_EXISTS.includes(error.code)) throw error;
  });
}

/**
 * Creates a database without anything that others have made in `template1`, and to which only its owner may connect: up to PostgreSQL 14
 * everybody may create in the schema `public`.
 *
 * @param {string} url
 */
export async function createPrivateDatabase(url) {
  await onServer(url, (name) => [
    `CREATE DATABASE ${name} TEMPLATE template0 ALLOW_CONNECTIONS false`,
    `REVOKE ALL ON DATABASE ${name} FROM PUBLIC`,
    // The owner may be a role that the login takes on only once it is connected.
    `GRANT CONNECT ON DATABASE ${name} TO SESSION_USER`,
    `ALTER DATABASE ${name} ALLOW_CONNECTIONS true`,
  ]);
}

/** @param {string} url */
export async function dropDatabase(url) {
  // FORCE: the server may not have noticed yet that our last connection is closed.
  await onServer(url, (name) => [`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`]);
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
 * @param {(name: string) => string[]} statementsFor the name of the database, quoted
 */
async function onServer(url, statementsFor) {
  const { database } = new pg.Client({ connectionString: url });
  const client = await connect(siblingUrl(url, 'postgres'));
  try {
    for (const statement of statementsFor(pg.escapeIdentifier(database ?? ''))) {
      await client.query(statement);
    }
  } finally {
    await client.end();
  }
}
