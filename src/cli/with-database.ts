import pg from 'pg';
import { sessionSettings } from '../database/session-settings.js';
import { databaseUrl } from './settings.js';

const CONNECT_TIMEOUT_MS = 5_000;

/** Lends a command a connection to the database that it works on. */
export async function withDatabase<T>(work: (db: pg.Client) => Promise<T>): Promise<T> {
  const db = new pg.Client({
    connectionString: await databaseUrl(),
    application_name: 'petstore-cli',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
  // A connection that is lost fails the statement under way, which says so.
  db.on('error', () => undefined);
  await db.connect();
  try {
    await db.query(sessionSettings());
    return await work(db);
  } finally {
    await db.end();
  }
}
