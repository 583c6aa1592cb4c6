import { CommanderError } from 'commander';
import { asError } from '../common/as-error.js';
import { OutputError, writeError } from './output.js';

/** The command failed. */
const EXIT_FAILED = 1;
/** The command line is invalid or incomplete; nothing was done. */
const EXIT_USAGE = 2;

/** The arguments are valid by themselves, but the command cannot run with them in this environment. */
export class UsageError extends Error {}

/** Writes an error to stderr and returns the exit code. */
export function reportError(error: unknown): number {
  if (error instanceof CommanderError) {
    // Commander has written its message already.
    return error.exitCode === 0 ? 0 : EXIT_USAGE;
  }
  if (error instanceof OutputError && error.isClosedPipe) {
    // The reader, such as `head`, has all it wants.
    return 0;
  }
  writeError(`error: ${asError(error).message}\n`);
  return error instanceof UsageError ? EXIT_USAGE : EXIT_FAILED;
}
