#!/usr/bin/env node
import 'reflect-metadata';
import { Command, CommanderError } from 'commander';
import { KeyAdministrationError } from './api-keys/api-keys.admin.js';
import { addKeyCommands } from './cli/key-commands.js';
import { addOpenApiCommand } from './cli/openapi-command.js';
import { addSeedCommand } from './cli/seed-command.js';
import { addServeCommand } from './cli/serve-command.js';
import { UsageError } from './cli/usage-error.js';
import { ConfigurationError } from './config/configuration-error.js';
import { databaseFailure } from './prisma/database-call.js';
import { DomainError } from './errors/domain-error.js';

/** The command could not do what it was asked to. */
const EXIT_FAILED = 1;
/** The command line was not understood. */
const EXIT_USAGE = 2;

const program = new Command('petstore')
  .description('The store orders service: serve it, administer its API keys, fill its database.')
  .exitOverride()
  .configureHelp({ showGlobalOptions: true })
  .showHelpAfterError('(add --help for what would be right)')
  .addHelpText('after', '\nExit codes: 0 done, 1 failed, 2 the command line was not understood.');

addServeCommand(program);
addKeyCommands(program);
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
  const failure = databaseFailure(error);
  if (failure instanceof DomainError) {
    const cause = failure.cause instanceof Error ? failure.cause.message : String(failure.cause);
    process.stderr.write(`error: the database cannot be used: ${cause.trim().split('\n').at(-1) ?? ''}\n`);
    return EXIT_FAILED;
  }
  const isForTheOperator = error instanceof ConfigurationError || error instanceof KeyAdministrationError;
  process.stderr.write(`error: ${isForTheOperator ? error.message : describe(error)}\n`);
  return EXIT_FAILED;
}

function describe(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
