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

const url = withoutPassword(process.env.DATABASE_URL);

/** The CLI gives the URL to the engine as an argument, which every user can see. The script takes the password from the environment. */
function withoutPassword(text = ''): string {
  if (process.env.PRISMA_SCHEMA_ENGINE_BINARY !== SCRIPT || !URL.canParse(text)) {
    return text;
  }
  const parsed = new URL(text);
  if (parsed.password !== '') {
    process.env.PGPASSWORD = decodeURIComponent(parsed.password);
    parsed.password = '';
  }
  return parsed.href;
}

export default defineConfig({
  schema: 'prisma/schema.prisma',
  migrations: { path: 'prisma/migrations', seed: 'node dist/cli.js seed' },
  // Not prisma's env(), which throws when the variable is missing: generate, validate and format need no database.
  ...(url ? { datasource: { url } } : {}),
});
