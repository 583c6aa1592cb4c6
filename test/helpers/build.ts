import { join } from 'node:path';

const ROOT = join(__dirname, '..', '..');

/** The command line of the bundle, which `npm start` and the image run. */
export const CLI = join(ROOT, 'dist', 'bundle', 'cli.js');
