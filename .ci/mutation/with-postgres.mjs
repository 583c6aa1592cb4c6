// Runs a command beside the PostgreSQL of the tests, which would otherwise be started anew for every mutant.
import { spawn } from 'node:child_process';
import globalSetup from '../../test/helpers/global-setup.mjs';
import globalTeardown from '../../test/helpers/global-teardown.mjs';

const [command, ...args] = process.argv.slice(2);
await globalSetup();
const child = spawn(command, args, { stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => child.kill(signal));
}
child.on('exit', async (code) => {
  await globalTeardown();
  process.exitCode = code ?? 1;
});
