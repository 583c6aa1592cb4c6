import pg from 'pg';

/** SQLSTATE codes. */
const UNKNOWN_DATABASE = '3D000';
/** Errors of CREATE DATABASE when the database exists: the second when two run concurrently. */
const DATABASE_EXISTS = ['42P04', '23505'];

/** An error with a code that the Prisma CLI knows. */
export class PrismaError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   */
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/**
 * @param {string} connectionString
 * @throws {PrismaError} when the server or the database cannot be used
 */
export async function connect(connectionString) {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 10_000 });
  // Without a listener, a connection that breaks outside a query would end the process; the next query reports it.
  client.on('error', () => {});
  await client.connect().catch((error) => {
    // A host name with several addresses fails with an AggregateError that has no message.
    const { code, message } = error instanceof AggregateError ? error.errors[0] : error;
    throw code === UNKNOWN_DATABASE
      ? new PrismaError('P1003', message)
      : new PrismaError('P1001', `Cannot use the database server at ${client.host}:${client.port}: ${message}`);
  });
  return client;
}

/**
 * @template T
 * @param {string} url
 * @param {(client: pg.Client) => Promise<T>} work
 */
export async function withClient(url, work) {
  const client = await connect(url);
  return work(client).finally(() => client.end());
}

/**
 * Runs a statement outside of the database of the URL.
 *
 * @param {string} url
 * @param {string} statement
 */
export async function onServer(url, statement) {
  await withClient(siblingUrl(url, 'postgres'), (client) => client.query(statement));
}

/**
 * @param {string} url
 * @param {string} database
 * @returns {string} the same URL for another database of the same server
 */
export function siblingUrl(url, database) {
  return Object.assign(new URL(url), { pathname: `/${database}` }).href;
}

/**
 * Creates the database in the URL. An existing one is no error, because several migrations may start at once.
 *
 * @param {string} url
 */
export async function createDatabase(url) {
  const name = pg.escapeIdentifier(new pg.Client(url).database ?? '');
  await onServer(url, `CREATE DATABASE ${name}`).catch((error) => {
    if (!DATABASE_EXISTS.includes(error.code)) throw error;
  });
}
