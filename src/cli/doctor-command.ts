import type { Command } from 'commander';
import type { Results } from './doctor/check.js';
import { oneLine, print } from './output.js';

/** By exit code. */
const STATUSES: readonly string[] = ['ok', 'warning', 'error'];

const HELP = `
Run it with the environment of the service, in containers:
  docker compose exec service node dist/cli.js doctor

Exit codes: 0 all checks passed, 1 warnings, 2 errors.`;

/** @param exitWith sets the exit code of a command that has not failed */
export function addDoctorCommand(program: Command, exitWith: (code: number) => void): void {
  program
    .command('doctor')
    .description('check whether this deployment is set up correctly; changes nothing but a count of its own in Redis')
    .option('--json', 'print {"status", "checks": [{"name", "status", "message", "remedy"}]}')
    .addHelpText('after', HELP)
    .action(async ({ json }: { json?: true }) => {
      const { runChecks } = await import('./doctor/run-checks.js');
      const results = await runChecks(process.env);
      const exitCode = Math.max(0, ...Object.values(results).map(({ status }) => STATUSES.indexOf(status)));
      exitWith(exitCode);
      const checks = Object.entries(results).map(([name, result]) => ({ name, ...result }));
      await print(json, { status: STATUSES[exitCode], checks }, textOf(results));
    });
}

/** A line for each check, and below it what to do. */
function textOf(results: Results): string {
  return Object.entries(results)
    .flatMap(([name, { status, message, remedy }]) => [
      `${status.padEnd(9)}${name.padEnd(21)}${oneLine(message)}`,
      ...(remedy === null ? [] : [`${' '.repeat(9)}→ ${oneLine(remedy)}`]),
    ])
    .join('\n');
}
