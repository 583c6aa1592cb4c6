import type { Command } from 'commander';

export function addOpenApiCommand(program: Command): void {
  program
    .command('openapi')
    .description('print the OpenAPI document as JSON')
    .action(async () => {
      const { describeInterface } = await import('../docs/describe-interface.js');
      process.stdout.write(await describeInterface(process.env));
    });
}
