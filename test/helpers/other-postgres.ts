import { join } from 'node:path';

/** @returns the programs of another version than that of the global setup, which `npm run test:matrix` installs, if it has */
export function otherPostgres(version: number): string | undefined {
  const folder = process.env.TEST_OTHER_POSTGRES;
  return folder === undefined ? undefined : join(folder, `postgres-${version}`, 'native');
}
