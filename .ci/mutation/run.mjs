// Mutates the decision code and reports the mutants that no unit test detects, with one PostgreSQL for the whole run.
// Arguments: the files to mutate, as paths from the root; default: those in stryker.config.json.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import globalSetup from '../../test/helpers/global-setup.mjs';
import globalTeardown from '../../test/helpers/global-teardown.mjs';
import { installOnce } from '../install.mjs';

const STRYKER = '.ci/mutation/node_modules/@stryker-mutator/core/bin/stryker.js';

installOnce(fileURLToPath(new URL('.', import.meta.url)));
const files = process.argv.slice(2);
await globalSetup();
const child = spawn(
  process.execPath,
  [STRYKER, 'run', ...(files.length === 0 ? [] : ['--mutate', files.join()]), '.ci/mutation/stryker.config.json'],
  { cwd: fileURLToPath(new URL('../..', import.meta.url)), stdio: 'inherit' },
);
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => child.kill(signal));
}
child.on('exit', async (code) => {
  await globalTeardown();
  process.exitCode = code ?? 1;
});
