import type { ChildProcess } from 'node:child_process';
import { subscribe } from 'node:diagnostics_channel';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'prisma/config';
import { databaseUrlOf } from './src/config/database-url.ts';
import { Environment } from './src/config/environment.ts';

const SCRIPT = fileURLToPath(new URL('prisma/engine/schema-engine.mjs', import.meta.url));

// The CLI would download a native schema engine from a host of its own on first use. Ours is a script over the same
// engine as WebAssembly, which npm delivers with everything else, so that a migration needs no network but the
// database's. To use the native engine, name it in the environment. Windows cannot spawn a script and keeps
// the download.
if (process.platform !== 'win32') {
  process.env.PRISMA_SCHEMA_ENGINE_BINARY ??= SCRIPT;
}

// The CLI exits with 0 when its engine was killed, for example because memory ran out.
subscribe('child_process', (message) => {
  const { process: child } = message as { process: ChildProcess };
  child.once('exit', (code, signal) => {
    // The other commands of the engine, after `cli`, report a missing database by their exit code.
    const isEngine = child.spawnfile === process.env.PRISMA_SCHEMA_ENGINE_BINARY && !child.spawnargs.includes('cli');
    if (isEngine && code !== 0 && !child.killed) {
      console.error(
        `error: the schema engine has ended (${signal ?? `exit code ${code}`}); run "prisma migrate status"`,
      );
      process.once('exit', () => (process.exitCode = 1));
    }
  });
});

const environment = new Environment(process.env);
const url = databaseUrlOf(environment);
if (environment.problems.length > 0) {
  throw new Error(environment.problems.join('; '));
}

/** The CLI gives the URL to the engine as an argument, which every user can see. The script takes the login from the environment. */
function withoutLogin(url: URL): string {
  const logins = { user: url.username, password: url.password };
  for (const [name, part] of Object.entries(logins)) {
    // As `pg`, which prefers the parameter unless it is empty.
    const value = [url.searchParams.get(name), decodeURIComponent(part)].find(Boolean);
    if (value !== undefined && value !== null) {
      process.env[`PG${name.toUpperCase()}`] = value;
    }
    url.searchParams.delete(name);
  }
  return Object.assign(url, { username: '', password: '' }).href;
}

export default defineConfig({
  schema: 'prisma/schema.prisma',
  migrations: { path: 'prisma/migrations', seed: 'node dist/cli.js seed' },
  // Not prisma's env(), which throws when the variable is missing: generate, validate and format need no database.
  ...(url && {
    datasource: { url: process.env.PRISMA_SCHEMA_ENGINE_BINARY === SCRIPT ? withoutLogin(new URL(url)) : url },
  }),
});
