import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { openPool } from './open-pool.js';

const ROOT = join(__dirname, '..', '..');
const OPERATIONS = readFileSync(join(ROOT, 'docs', 'operations.md'), 'utf8');

/** Stands in for Compose: runs the commands of the containers here. The test stops and starts the server itself. */
const DOCKER = `#!/bin/sh
case "$2 $3 $4" in
  'run --rm migrate') cd "${ROOT}" && exec node node_modules/prisma/build/index.js migrate deploy ;;
  exec*) shift 4; exec "$@" ;;
  run*) shift 8; exec sh "$@" ;;
esac
`;

/** The commands of a section of docs/operations.md. */
export function documentedCommands(section: string): string[] {
  const text = OPERATIONS.split(`\n### ${section}\n`)[1]!.split('\n## ')[0]!.split('\n### ')[0]!;
  return [...text.matchAll(/```(?:sh|yaml)\n(.*?)```/gs)].map(([, block = '']) => block);
}

/** The archive_command for another folder. */
export function documentedArchiveCommand(folder: string): string {
  const [, command = ''] = /'archive_command=(.*?)'/s.exec(OPERATIONS) ?? [];
  return command.replaceAll('/backup', folder).replaceAll(/\s+/g, ' ');
}

/**
 * Runs documented commands on a server of {@link createDeployment}.
 * @param folder in which they read and write files
 */
export async function runDocumented(
  commands: string | undefined,
  folder: string,
  port: number,
  environment: Readonly<Record<string, string>> = {},
): Promise<void> {
  writeFileSync(join(folder, 'docker'), DOCKER, { mode: 0o755 });
  const env = {
    PATH: `${folder}:${process.env.PATH}`,
    PGHOST: '127.0.0.1',
    PGPORT: String(port),
    PGPASSWORD: 'test',
    ...environment,
  };
  await promisify(execFile)('sh', ['-euc', commands ?? ''], { cwd: folder, env, timeout: 60_000 });
}

/** Makes the roles of a deployment, with the password `test`, and its empty database. */
export async function createDeployment(superuserUrl: string): Promise<void> {
  const superuser = openPool({ connectionString: superuserUrl, max: 1 });
  for (const statement of [
    "CREATE ROLE postgres SUPERUSER LOGIN PASSWORD 'test'",
    "CREATE ROLE petstore_owner LOGIN PASSWORD 'test'",
    'CREATE ROLE petstore_service NOLOGIN',
    "CREATE ROLE petstore_app LOGIN PASSWORD 'test' IN ROLE petstore_service",
    'CREATE DATABASE petstore OWNER petstore_owner',
  ]) {
    await superuser.query(statement);
  }
  await superuser.end();
}
