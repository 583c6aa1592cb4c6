#!/usr/bin/env node
import { Command } from 'commander';
import { addKeyCommands } from './cli/key-commands.js';
import { addOpenApiCommand } from './cli/openapi-command.js';
import { addOrderCommands } from './cli/order-commands.js';
import { reportError } from './cli/report-error.js';
import { addSeedCommand } from './cli/seed-command.js';
import { addServeCommand } from './cli/serve-command.js';

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
  process.exitCode = reportError(error);
}
