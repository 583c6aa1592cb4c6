import type { Command } from 'commander';

export function addOpenApiCommand(program: Command): void {
  program
    .command('openapi')
    .description('print the OpenAPI document as JSON; PUBLIC_BASE_URL and STAGING_BASE_URL name its servers')
    .action(async () => {
      const { only } = await import('./settings.js');
      const { generateOpenApi } = await import('./generate-openapi.js');
      process.stdout.write(await generateOpenApi(only('PUBLIC_BASE_URL', 'STAGING_BASE_URL')));
    });
}
