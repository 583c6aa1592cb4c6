import { CommanderError } from 'commander';
import { UsageError } from './usage-error.js';

/** The command failed. */
const EXIT_FAILED = 1;
/** The command line is invalid or incomplete; nothing was done. */
const EXIT_USAGE = 2;

/** Writes an error to stderr and returns the exit code. */
export function reportError(error: unknown): number {
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

/** Prisma puts the reason last, after its place in the code; a name with several addresses fails with one error for all. */
function describe(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) {
    return describe(error.errors[0]);
  }
  if (!(error instanceof Error)) {
    return String(error);
  }
  const { name, message } = error;
  return name.startsWith('PrismaClient') ? (message.trim().split('\n').at(-1) ?? name) : message || name;
}
