import { PrismaPg } from '@prisma/adapter-pg';
import { PrismaClient } from './generated/client.js';

/** A Prisma client for a command that runs and ends; the service has {@link PrismaService}. */
export function connectPrisma(databaseUrl: string): { prisma: PrismaClient; close(): Promise<void> } {
  const prisma = new PrismaClient({
    adapter: new PrismaPg({
      connectionString: databaseUrl,
      application_name: 'petstore-cli',
      max: 1,
      connectionTimeoutMillis: 5_000,
      statement_timeout: 30_000,
    }),
  });
  return { prisma, close: () => prisma.$disconnect() };
}
