// Lints openapi.json with Spectral, installed from a lock file of its own.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { installOnce } from '../install.mjs';

const FOLDER = fileURLToPath(new URL('.', import.meta.url));
const SPECTRAL = 'node_modules/@stoplight/spectral-cli/dist/index.js';

installOnce(FOLDER);
const { status } = spawnSync(
  process.execPath,
  [SPECTRAL, 'lint', '../../openapi.json', '--ruleset', 'spectral.yaml', '--fail-severity=warn'],
  { cwd: FOLDER, stdio: 'inherit' },
);
process.exitCode = status ?? 1;
