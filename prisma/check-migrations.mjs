#!/usr/bin/env node
// Fails when the migrations do not produce the schema: applies them to a temporary database on the server in
// DATABASE_URL and compares that database with schema.prisma.
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { createDatabase, dropDatabase, siblingUrl } from './engine/database.mjs';
import { describe } from './engine/errors.mjs';

const CLI = fileURLToPath(import.meta.resolve('prisma/build/index.js'));
const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** The exit code of `migrate diff --exit-code` when it finds a difference. */
const DIFFERENCE_FOUND = 2;

/**
 * @param {string} databaseUrl
 * @param {string} command
 * @returns {Promise<{ exitCode: unknown, stdout: string, stderr: string }>}
 */
function prisma(databaseUrl, command) {
  const options = { cwd: ROOT, env: { ...process.env, DATABASE_URL: databaseUrl, NO_COLOR: '1' } };
  return new Promise((resolve) => {
    execFile(process.execPath, [CLI, ...command.split(' ')], options, (error, stdout, stderr) => {
      resolve({ exitCode: error?.code ?? error?.signal ?? 0, stdout, stderr });
    });
  });
}

/**
 * @param {string} databaseUrl of an empty database
 * @returns {Promise<string | undefined>} the problem, if there is one
 */
async function findProblem(databaseUrl) {
  const deploy = await prisma(databaseUrl, 'migrate deploy');
  if (deploy.exitCode !== 0) return `The migrations do not apply to an empty database.\n\n${deploy.stderr}`;

  const diff = await prisma(
    databaseUrl,
    'migrate diff --from-config-datasource --to-schema prisma/schema.prisma --exit-code',
  );
  if (diff.exitCode === DIFFERENCE_FOUND) {
    return (
      `prisma/schema.prisma differs from what the migrations produce:\n${diff.stdout}\n` +
      'Write the missing migration with `npx prisma migrate dev --create-only`.'
    );
  }
  // The CLI exits with 0 even when its engine crashes, but then it prints nothing.
  if (diff.exitCode !== 0 || diff.stdout.trim() === '') return `The comparison failed.\n\n${diff.stderr}`;
  return undefined;
}

/** @returns {Promise<string | undefined>} the problem, if there is one */
async function check() {
  const url = process.env.DATABASE_URL;
  if (!url) return 'DATABASE_URL must name a PostgreSQL server and a role that may create databases.';
  const scratchUrl = siblingUrl(url, `check_migrations_${randomUUID()}`);
  await createDatabase(scratchUrl);
  return findProblem(scratchUrl).finally(() => dropDatabase(scratchUrl));
}

// An interrupt ends the running command; the temporary database is then dropped as after any other failure.
process.on('SIGINT', () => {});
const problem = await check().catch(describe);
if (problem === undefined) {
  console.log('The migrations produce the schema.');
} else {
  console.error(problem);
  process.exitCode = 1;
}
