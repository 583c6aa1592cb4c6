#!/usr/bin/env node
import { Command, CommanderError } from 'commander';
import { addKeyCommands } from './cli/key-commands.js';
import { addOpenApiCommand } from './cli/openapi-command.js';
import { addOrderCommands } from './cli/order-commands.js';
import { addSeedCommand } from './cli/seed-command.js';
import { addServeCommand } from './cli/serve-command.js';
import { UsageError } from './cli/usage-error.js';
import { ConfigurationError } from './config/configuration-error.js';
import { ImportRefused } from './import/faults.js';

/** The command could not do what it was asked to. */
const EXIT_FAILED = 1;
/** The command line was not understood or lacks something: nothing was done. */
const EXIT_USAGE = 2;

const HELP = `
The commands work on DATABASE_URL, or on the embedded database while "npm start" runs.

Examples:
  petstore serve
  petstore keys issue --name "Partner Inc." --plan pro
  petstore keys list
  petstore orders import orders.csv --dry-run

Exit codes: 0 done, 1 failed, 2 not run: the command line was not understood or lacks something.`;

const program = new Command('petstore')
  .description('The store orders service: serve it, administer its API keys, fill its database.')
  .exitOverride()
  .configureHelp({ showGlobalOptions: true })
  .showHelpAfterError('(add --help for what would be right)')
  .addHelpText('after', HELP);

addServeCommand(program);
addKeyCommands(program);
addOrderCommands(program);
addSeedCommand(program);
addOpenApiCommand(program);

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = report(error);
}

/** Says on stderr what went wrong, and gives the exit code. */
function report(error: unknown): number {
  if (error instanceof CommanderError) {
    // Commander has written its message already.
    return error.exitCode === 0 ? 0 : EXIT_USAGE;
  }
  if (error instanceof UsageError) {
    process.stderr.write(`error: ${error.message}\n`);
    return EXIT_USAGE;
  }
  process.stderr.write(`error: ${describe(error)}\n`);
  return EXIT_FAILED;
}

/** Prisma puts the reason last, after where in the code it happened; several failed addresses come as one error. */
function describe(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) {
    return describe(error.errors[0]);
  }
  if (!(error instanceof Error)) {
    return String(error);
  }
  const isWrittenForPeople = error instanceof ConfigurationError || error instanceof ImportRefused;
  return isWrittenForPeople ? error.message : (error.message.trim().split('\n').at(-1) ?? error.name);
}
