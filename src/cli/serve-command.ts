import type { Command } from 'commander';

export function addServeCommand(program: Command): void {
  program
    .command('serve')
    .description(
      'run the service until SIGTERM or SIGINT; without DATABASE_URL on an embedded PostgreSQL with demo data',
    )
    .action(async () => {
      // The same as `npm run start:prod`. Loaded here, so that the other commands need not wait for the framework.
      await import('../main.js');
    });
}
