// Lints openapi.json with Spectral and Redocly, installed from a lock file of their own.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { installOnce } from '../install.mjs';

const FOLDER = fileURLToPath(new URL('.', import.meta.url));
const DOCUMENT = '../../openapi.json';

/** Each linter's script and arguments. */
const LINTERS = [
  ['@stoplight/spectral-cli/dist/index.js', 'lint', DOCUMENT, '--ruleset', 'spectral.yaml', '--fail-severity=warn'],
  ['@redocly/cli/bin/cli.js', 'lint', DOCUMENT, '--extends=recommended-strict'],
];

installOnce(FOLDER);
for (const [script, ...args] of LINTERS) {
  const { status } = spawnSync(process.execPath, [`node_modules/${script}`, ...args], {
    cwd: FOLDER,
    stdio: 'inherit',
    env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
  });
  if (status !== 0) {
    process.exitCode = 1;
  }
}
