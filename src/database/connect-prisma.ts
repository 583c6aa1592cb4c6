import { PrismaPg } from '@prisma/adapter-pg';
import pg from 'pg';
import { PrismaClient } from './generated/client.js';
import { sessionSettings } from './session-settings.js';

/** Longer than the wait for a lock, so that PostgreSQL reports it. */
const TRANSACTION_TIMEOUT_MS = 30_000;

/** A Prisma client for a command that runs and ends; the service has `PrismaService`. Loads no framework. */
export function connectPrisma(databaseUrl: string): { prisma: PrismaClient; close(): Promise<void> } {
  const settings = sessionSettings({
    lock_timeout: 10_000,
    statement_timeout: TRANSACTION_TIMEOUT_MS,
    idle_in_transaction_session_timeout: TRANSACTION_TIMEOUT_MS,
  });
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    application_name: 'petstore-cli',
    max: 1,
    connectionTimeoutMillis: 5_000,
    onConnect: (client: pg.ClientBase) => client.query(settings) as unknown as undefined,
  });
  // A lost connection fails the statement that needs it.
  pool.on('error', () => undefined);
  const prisma = new PrismaClient({
    adapter: new PrismaPg(pool, { disposeExternalPool: true }),
    transactionOptions: { timeout: TRANSACTION_TIMEOUT_MS },
  });
  return { prisma, close: () => prisma.$disconnect() };
}
