import { PrismaPg } from '@prisma/adapter-pg';
import pg from 'pg';
import { PrismaClient } from './generated/client.js';
import { CONNECTION_TIMEOUT_MS, clientsOf, firstError } from './open-client.js';

/** Longer than a transaction may wait for a lock, so that PostgreSQL ends it and says why. Milliseconds. */
const TRANSACTION_OPTIONS = { maxWait: 2 * CONNECTION_TIMEOUT_MS, timeout: 60_000 };

export interface OpenPrisma {
  readonly prisma: PrismaClient;
  /** Its only connection. */
  readonly db: pg.Client;
  readonly end: () => Promise<void>;
}

/**
 * Opens a Prisma client on one connection outside the pools.
 * @param settings the statements that the connection begins with
 * @throws {Error} the first one when the host has several addresses
 */
export async function openPrisma(url: string, settings: string, options: pg.PoolConfig = {}): Promise<OpenPrisma> {
  const pool = new pg.Pool({
    Client: clientsOf(url),
    max: 1,
    idleTimeoutMillis: 0,
    connectionTimeoutMillis: CONNECTION_TIMEOUT_MS,
    keepAlive: true,
    ...options,
    // The pool waits for the promise; its type says `void`.
    onConnect: (client: pg.ClientBase) => client.query(settings) as unknown as undefined,
  });
  // Without a listener an idle connection that breaks would end the process. The next statement fails.
  pool.on('error', () => undefined);
  const db = (await pool.connect().catch(firstError)) as pg.PoolClient & pg.Client;
  db.release();
  const prisma = new PrismaClient({
    adapter: new PrismaPg(pool),
    errorFormat: 'minimal',
    transactionOptions: TRANSACTION_OPTIONS,
  });
  return { prisma, db, end: () => pool.end() };
}
