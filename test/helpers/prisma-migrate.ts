import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { PROJECT_ROOT } from '../../src/common/project-root.js';

const PRISMA = join(PROJECT_ROOT, 'node_modules', 'prisma', 'build', 'index.js');

/**
 * Runs `prisma migrate`, as production does.
 * @param command such as `deploy`
 * @returns its output
 * @throws {Error} when it fails
 */
export async function prismaMigrate(command: string, databaseUrl: string): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [PRISMA, 'migrate', ...command.split(' ')], {
    cwd: PROJECT_ROOT,
    env: { ...process.env, DATABASE_URL: databaseUrl, NO_COLOR: '1' },
  });
  return stdout;
}
