import type { Command } from 'commander';
import { serve } from '../main.js';

export function addServeCommand(program: Command): void {
  program
    .command('serve')
    .description(
      'run the service until SIGTERM or SIGINT; without DATABASE_URL on an embedded PostgreSQL with demo data',
    )
    .action(serve);
}
