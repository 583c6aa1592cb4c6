#!/usr/bin/env node
import { runCommand } from './cli/run-command.js';

// Without listeners a closed pipe or a full disk would end the process with a stack trace; print() reports the failure.
process.stdout.on('error', () => undefined);
process.stderr.on('error', () => undefined);

process.exitCode = await runCommand(process.argv.slice(2));

if (process.argv[2] === 'doctor') {
  // A hanging look-up of a host name cannot be cancelled and would outlast the 15 seconds of this command.
  setTimeout(() => process.exit(), 500).unref();
}
