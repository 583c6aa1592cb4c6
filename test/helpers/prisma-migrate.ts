import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/common/project-root.js';
import { runProcess } from './petstore.js';

const PRISMA = join(PROJECT_ROOT, 'node_modules', 'prisma', 'build', 'index.js');

/**
 * Runs `prisma migrate`, as production does.
 * @param command such as `deploy`
 * @returns its output
 * @throws {Error} when it fails
 */
export async function prismaMigrate(command: string, databaseUrl: string): Promise<string> {
  const environment = { DATABASE_URL: databaseUrl, NO_COLOR: '1', CHECKPOINT_DISABLE: '1' };
  const { exitCode, stdout, stderr } = await runProcess(
    [process.execPath, PRISMA, 'migrate', ...command.split(' ')],
    environment,
  );
  if (exitCode !== 0) {
    throw new Error(stderr);
  }
  return stdout;
}
