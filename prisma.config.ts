import type { ChildProcess } from 'node:child_process';
import { subscribe } from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'prisma/config';

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
    if (child.spawnfile === process.env.PRISMA_SCHEMA_ENGINE_BINARY && code !== 0 && !child.killed) {
      console.error(
        `error: the schema engine has ended (${signal ?? `exit code ${code}`}); run "prisma migrate status"`,
      );
      process.once('exit', () => (process.exitCode = 1));
    }
  });
});

const url = withoutPassword(databaseUrl(process.env));

/** As for the service, the URL may be in a file. */
function databaseUrl({ DATABASE_URL: text, DATABASE_URL_FILE: file }: NodeJS.ProcessEnv): string | undefined {
  return text || !file ? text : readFileSync(file, 'utf8').trimEnd();
}

/**
 * The CLI gives the URL to the engine as an argument, which every user can see. The script takes the password from the environment.
 * @throws {Error} for a URL without a host, which the service rejects, too
 */
function withoutPassword(text = ''): string {
  if (process.env.PRISMA_SCHEMA_ENGINE_BINARY !== SCRIPT || text === '') {
    return text;
  }
  if (!URL.canParse(text)) {
    throw new Error(
      'DATABASE_URL must be a URL like postgresql://user:password@host:5432/database, with special characters percent-encoded; ' +
        'for a socket, postgresql://user:password@localhost/database?host=/directory',
    );
  }
  const parsed = new URL(text);
  // As `pg`, which prefers the parameter unless it is empty.
  const parameter = parsed.searchParams.get('password') ?? '';
  const password = parameter === '' ? decodeURIComponent(parsed.password) : parameter;
  if (password !== '') {
    process.env.PGPASSWORD = password;
    parsed.password = '';
    parsed.searchParams.delete('password');
  }
  return parsed.href;
}

export default defineConfig({
  schema: 'prisma/schema.prisma',
  migrations: { path: 'prisma/migrations', seed: 'node dist/cli.js seed' },
  // Not prisma's env(), which throws when the variable is missing: generate, validate and format need no database.
  ...(url ? { datasource: { url } } : {}),
});
