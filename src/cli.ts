#!/usr/bin/env node
import { runCommand } from './cli/run-command.js';

// Without listeners a closed pipe or a full disk would end the process with a stack trace; print() reports the failure.
process.stdout.on('error', () => undefined);
process.stderr.on('error', () => undefined);

// Explicit: a hanging look-up of a host name cannot be cancelled and would outlast the 15 seconds of doctor.
process.exit(await runCommand(process.argv.slice(2)));
