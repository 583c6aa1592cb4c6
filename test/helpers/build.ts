import { join } from 'node:path';

/** The command line of the build. `PETSTORE_BUILD=dist/bundle` runs the tests of processes against the production bundle. */
export const CLI = join(__dirname, '..', '..', process.env.PETSTORE_BUILD ?? 'dist', 'cli.js');
