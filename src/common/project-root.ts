import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of `package.json`, for code in `src/` and in `dist/`. */
export const PROJECT_ROOT = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
