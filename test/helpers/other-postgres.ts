import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** @returns the programs of another version than that of the global setup, if `npm run test:matrix` or CI has installed them */
export function otherPostgres(version: number): string | undefined {
  const folder = join(__dirname, '..', 'matrix', 'postgres-versions', 'node_modules');
  const programs = join(folder, `postgres-${version}`, 'native');
  return existsSync(programs) ? programs : undefined;
}
