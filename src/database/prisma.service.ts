import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { PrismaPg } from '@prisma/adapter-pg';
import pg from 'pg';
import { PrismaClient } from './generated/client.js';
import { Pools } from './pools.js';
import { sessionSettings } from './session-settings.js';

const statementNames = new Map<string, string>();

/**
 * A named statement stays parsed and planned for the connection. The texts are few: the constants in our code and the
 * queries that Prisma generates, with values as parameters.
 */
function statementNameOf(sql: string): string {
  let name = statementNames.get(sql);
  if (name === undefined) {
    name = `petstore_${statementNames.size}`;
    statementNames.set(sql, name);
  }
  return name;
}

/** The Prisma client over the main pool. It does not own the pool: disconnecting leaves the pool open. */
@Injectable()
export class PrismaService extends PrismaClient implements OnApplicationShutdown {
  constructor(pools: Pools) {
    super({ adapter: new PrismaPg(pools.main, { statementNameGenerator: ({ sql }) => statementNameOf(sql) }) });
  }

  async onApplicationShutdown(): Promise<void> {
    await this.$disconnect();
  }
}

/** A Prisma client for a command that runs and ends; the service has {@link PrismaService}. */
export function connectPrisma(databaseUrl: string): { prisma: PrismaClient; close(): Promise<void> } {
  const settings = sessionSettings({ statement_timeout: 30_000, idle_in_transaction_session_timeout: 30_000 });
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    application_name: 'petstore-cli',
    max: 1,
    connectionTimeoutMillis: 5_000,
    onConnect: (client: pg.ClientBase) => client.query(settings) as unknown as undefined,
  });
  // A lost connection fails the statement that needs it.
  pool.on('error', () => undefined);
  const prisma = new PrismaClient({ adapter: new PrismaPg(pool, { disposeExternalPool: true }) });
  return { prisma, close: () => prisma.$disconnect() };
}
