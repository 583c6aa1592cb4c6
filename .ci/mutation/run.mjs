// Mutates the decision code and reports the mutants that no unit test detects, with one PostgreSQL for the whole run.
// Arguments: the files to mutate, as paths from the root; default: those in stryker.config.json and, apart from them, the
// encoder, whose instrumented loops would slow the tests of all other list code down.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import globalSetup from '../../test/helpers/global-setup.mjs';
import globalTeardown from '../../test/helpers/global-teardown.mjs';
import { installOnce } from '../install.mjs';

const STRYKER = '.ci/mutation/node_modules/@stryker-mutator/core/bin/stryker.js';
const CONFIG = '.ci/mutation/stryker.config.json';
const ENCODER = 'src/orders/list/order-list-encoder.ts';
/** For each test. With the encoder's instrumented loops some take longer. */
const TIMEOUT_MS = 5_000;
const ENCODER_TIMEOUT_MS = 60_000;

installOnce(fileURLToPath(new URL('.', import.meta.url)));
const files = process.argv.slice(2);
await globalSetup();
let code = await mutate(files, files.includes(ENCODER) ? ENCODER_TIMEOUT_MS : TIMEOUT_MS);
if (code === 0 && files.length === 0) {
  code = await mutate([ENCODER], ENCODER_TIMEOUT_MS);
}
await globalTeardown();
process.exitCode = code;

/** @returns the exit code */
async function mutate(paths, testTimeoutMs) {
  const options = paths.length === 0 ? [] : ['--mutate', paths.join()];
  const child = spawn(process.execPath, [STRYKER, 'run', ...options, CONFIG], {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    stdio: 'inherit',
    env: { ...process.env, TEST_TIMEOUT_MS: String(testTimeoutMs) },
  });
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.once(signal, () => child.kill(signal));
  }
  const [status] = await once(child, 'exit');
  return status ?? 1;
}
