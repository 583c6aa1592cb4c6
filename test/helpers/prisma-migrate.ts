import { execFile, spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { PROJECT_ROOT } from '../../src/common/project-root.js';

const PRISMA = join(PROJECT_ROOT, 'node_modules', 'prisma', 'build', 'index.js');
const ENGINE = join(PROJECT_ROOT, 'prisma', 'engine', 'schema-engine.mjs');
const MIGRATIONS = join(PROJECT_ROOT, 'prisma', 'migrations');

/**
 * Runs `prisma migrate`, as production does.
 * @param command such as `deploy`
 * @returns its output
 * @throws {Error} when it fails
 */
export async function prismaMigrate(command: string, databaseUrl: string): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [PRISMA, 'migrate', ...command.split(' ')], {
    cwd: PROJECT_ROOT,
    env: { ...process.env, DATABASE_URL: databaseUrl, NO_COLOR: '1' },
  });
  return stdout;
}

/**
 * Applies the pending migrations with the engine that `prisma migrate deploy` starts. Without Prisma's command line, which itself
 * does nothing in the database, this takes a quarter of the time.
 * @throws {Error} with the message that the command line prints
 */
export async function deployByEngine(databaseUrl: string): Promise<void> {
  const engine = spawn(process.execPath, [ENGINE, '--datasource', JSON.stringify({ url: databaseUrl })]);
  const log = text(engine.stderr);
  engine.stdin.write(`${JSON.stringify({ id: 1, jsonrpc: '2.0', method: 'applyMigrations', params: parameters() })}\n`);
  for await (const line of createInterface({ input: engine.stdout })) {
    const message = JSON.parse(line) as { method?: string; error?: { data: { message: string } } };
    if (message.method === undefined) {
      engine.stdin.end();
      if (message.error !== undefined) {
        throw new Error(message.error.data.message);
      }
      return;
    }
  }
  throw new Error(`The schema engine has ended: ${await log}`);
}

/** As the command line sends them. */
function parameters(): object {
  const names = readdirSync(MIGRATIONS).filter((name) => /^\d/.test(name));
  const read = (path: string): string => readFileSync(join(MIGRATIONS, path), 'utf8');
  return {
    migrationsList: {
      baseDir: MIGRATIONS,
      lockfile: { path: 'migration_lock.toml', content: read('migration_lock.toml') },
      shadowDbInitScript: '',
      migrationDirectories: names.sort().map((path) => ({
        path,
        migrationFile: { path: 'migration.sql', content: { tag: 'ok', value: read(join(path, 'migration.sql')) } },
      })),
    },
    filters: { externalTables: [], externalEnums: [] },
  };
}
