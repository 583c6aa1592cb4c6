import { existsSync, realpathSync } from 'node:fs';
import { join } from 'node:path';

/** @returns the programs of another version than that of the global setup, if `npm run test:matrix` or CI has installed them */
export function otherPostgres(version: number): string | undefined {
  const folder = join(__dirname, '..', 'weekly', 'postgres-versions', 'node_modules');
  const programs = join(folder, `postgres-${version}`, 'native');
  // Copies of the project link the packages, and an unprivileged user may not reach the link.
  return existsSync(programs) ? realpathSync(programs) : undefined;
}
