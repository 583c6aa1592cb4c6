import { fileURLToPath } from 'node:url';
import { defineConfig } from 'prisma/config';

// The CLI would download a native schema engine from a host of its own on first use. Ours is a script over the same
// engine as WebAssembly, which npm delivers with everything else, so that a migration needs no network but the
// database's. Whoever prefers the native engine names it in the environment. Windows cannot spawn a script and keeps
// the download.
if (process.platform !== 'win32') {
  process.env.PRISMA_SCHEMA_ENGINE_BINARY ??= fileURLToPath(
    new URL('prisma/engine/schema-engine.mjs', import.meta.url),
  );
}

const url = process.env.DATABASE_URL;

export default defineConfig({
  schema: 'prisma/schema.prisma',
  migrations: { path: 'prisma/migrations', seed: 'node dist/cli.js seed' },
  // Not prisma's env(), which throws when the variable is missing: generate, validate and format need no database.
  ...(url ? { datasource: { url } } : {}),
});
