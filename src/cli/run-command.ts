import { Command, CommanderError } from 'commander';
import { asError } from '../common/as-error.js';
import { VERSION } from '../common/version.js';
import { UsageError } from './arguments.js';
import { addDoctorCommand } from './doctor-command.js';
import { addKeyCommands } from './key-commands.js';
import { addOrderCommands } from './order-commands.js';
import { print, writeError } from './output.js';

/** The command failed. */
const EXIT_FAILED = 1;
/** The command line is invalid or incomplete; nothing was done. */
const EXIT_USAGE = 2;

const HELP = `
Commands use the database of DATABASE_URL, or the embedded database while "npm start" is running.

Examples:
  petstore serve
  petstore keys issue --name "Partner Inc." --plan pro
  petstore keys list
  petstore orders import orders.csv --dry-run
  petstore doctor

Exit codes:
  0              success
  1              failure: nothing was changed, unless the message says otherwise or the connection was lost
  2              nothing was done: invalid or incomplete command line, no database configured, or --force missing in
                 production
  130, 143, 129  orders import or seed was ended by Ctrl-C, SIGTERM or SIGHUP: PostgreSQL rolls the load back within a
                 second or two, unless the message says that the commit had begun
For doctor: 0 all checks passed, 1 warnings, 2 errors.`;

/**
 * Runs a `petstore` command and reports its error on stderr.
 * @param args the command line without the program's name
 * @returns the exit code
 */
export async function runCommand(args: readonly string[]): Promise<number> {
  let exitCode = 0;
  const program = new Command('petstore')
    .description('Run the store orders service, administer its API keys and load orders.')
    .version(VERSION)
    .exitOverride()
    .configureOutput({ writeErr: writeError })
    .showHelpAfterError('(run the command with --help for its usage)')
    .addHelpText('after', HELP);
  program
    .command('serve')
    .description('run the service until it is stopped; without DATABASE_URL, on an embedded PostgreSQL with demo data')
    // The same as `npm run start:prod`. Loaded here, so that the other commands need not wait for the framework.
    .action(async () => {
      await import('../main.js');
    });
  addKeyCommands(program);
  addOrderCommands(program);
  addDoctorCommand(program, (code) => {
    exitCode = code;
  });
  program
    .command('openapi')
    .description('print the OpenAPI document as JSON, with the servers of PUBLIC_BASE_URL and STAGING_BASE_URL')
    .action(async () => {
      const { generateOpenApi } = await import('./generate-openapi.js');
      await print(true, await generateOpenApi(process.env), '');
    });
  try {
    await program.parseAsync(args, { from: 'user' });
    return exitCode;
  } catch (error) {
    return reportError(error);
  }
}

/** Writes an error to stderr, unless commander has, and returns the exit code. */
function reportError(error: unknown): number {
  if (error instanceof CommanderError) {
    return error.exitCode === 0 ? 0 : EXIT_USAGE;
  }
  writeError(`error: ${asError(error).message}\n`);
  return error instanceof UsageError ? EXIT_USAGE : EXIT_FAILED;
}
