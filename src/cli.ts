#!/usr/bin/env node
import { Command } from 'commander';
import { addKeyCommands } from './cli/key-commands.js';
import { addOrderCommands } from './cli/order-commands.js';
import { writeOut } from './cli/output.js';
import { reportError } from './cli/report-error.js';
import { addSeedCommand } from './cli/seed-command.js';
import { addServeCommand } from './cli/serve-command.js';

const HELP = `
Commands use the database of DATABASE_URL, or the embedded database while "npm start" is running.

Examples:
  petstore serve
  petstore keys issue --name "Partner Inc." --plan pro
  petstore keys list
  petstore orders import orders.csv --dry-run

Exit codes: 0 success, 1 failure, 2 invalid or incomplete command line (nothing was done).`;

// Without listeners a closed pipe or a full disk would end the process with a stack trace; print() reports the failure.
process.stdout.on('error', () => undefined);
process.stderr.on('error', () => undefined);

const program = new Command('petstore')
  .description('Run the store orders service, administer its API keys and load orders.')
  .exitOverride()
  .configureHelp({ showGlobalOptions: true })
  .showHelpAfterError('(run the command with --help for its usage)')
  .addHelpText('after', HELP);

addServeCommand(program);
addKeyCommands(program);
addOrderCommands(program);
addSeedCommand(program);
program
  .command('openapi')
  .description('print the OpenAPI document as JSON, with the servers of PUBLIC_BASE_URL and STAGING_BASE_URL')
  .action(async () => {
    const { generateOpenApi } = await import('./cli/generate-openapi.js');
    await writeOut(await generateOpenApi(process.env));
  });

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = reportError(error);
}
