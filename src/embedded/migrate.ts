import { createRequire } from 'node:module';
import { PROJECT_ROOT } from '../common/project-root.js';
import { runDetached } from './run-detached.js';

/**
 * Creates a database unless it exists and applies the pending migrations with `prisma migrate deploy`.
 * @throws {Error} with the output of Prisma
 */
export async function migrate(databaseUrl: string): Promise<void> {
  const prisma = createRequire(import.meta.url).resolve('prisma/build/index.js');
  await runDetached([process.execPath, prisma, 'migrate', 'deploy'], {
    cwd: PROJECT_ROOT,
    env: { ...process.env, DATABASE_URL: databaseUrl, DATABASE_DIRECT_URL: '' },
  }).catch((error: unknown) => {
    throw new Error(`Cannot apply the migrations:\n${(error as Error).message}`, { cause: error });
  });
}
