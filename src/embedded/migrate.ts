import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';
import { PROJECT_ROOT } from '../common/project-root.js';

const run = promisify(execFile);

/**
 * Brings a database up to the latest migration with `prisma migrate deploy`.
 * @throws {Error} with what Prisma printed
 */
export async function migrate(databaseUrl: string): Promise<void> {
  const prisma = createRequire(import.meta.url).resolve('prisma/build/index.js');
  try {
    await run(process.execPath, [prisma, 'migrate', 'deploy'], {
      cwd: PROJECT_ROOT,
      env: { ...process.env, DATABASE_URL: databaseUrl },
    });
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`The migrations could not be applied:\n${stdout}${stderr}`.trim(), { cause: error });
  }
}
