import type { Command } from 'commander';
import { describeInterface } from '../docs/describe-interface.js';

export function addOpenApiCommand(program: Command): void {
  program
    .command('openapi')
    .description('print the OpenAPI document as JSON')
    .action(async () => {
      process.stdout.write(await describeInterface(process.env));
    });
}
