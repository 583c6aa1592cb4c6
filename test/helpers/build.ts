import { join } from 'node:path';

const ROOT = join(__dirname, '..', '..');

/** The command line of the bundle, which `npm start` and the image run. */
export const CLI = join(ROOT, 'dist', 'bundle', 'cli.js');

/** The same before bundling: it loads the packages from `node_modules/`. */
export const UNBUNDLED_CLI = join(ROOT, 'dist', 'cli.js');
