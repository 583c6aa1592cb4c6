// Runs every command, and the service, in a copy of the build without the development dependencies, as `npm ci --omit=dev` would
// install it: a package that only they bring fails here and not in production.
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { migrate } from '../dist/cli/embedded/migrate.js';
import { PostgresServer } from '../dist/cli/embedded/postgres-server.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const START_TIMEOUT_MS = 60_000;
const ID = /"id": "([0-9a-f-]{36})"/;

const tree = mkdtempSync(join(tmpdir(), 'petstore-production-'));
const data = mkdtempSync(join(tmpdir(), 'petstore-production-data-'));
const run = [];

/**
 * Runs a command in the installed tree.
 * @param {string[]} args
 * @param {Record<string, string>} environment
 * @param {string} input
 * @returns {string} stdout
 */
function petstore(args, environment, input = '') {
  run.push(args.join(' '));
  return execFileSync(process.execPath, ['dist/cli.js', ...args], {
    cwd: tree,
    env: { PATH: process.env.PATH ?? '', NODE_ENV: 'production', ...environment },
    encoding: 'utf8',
    input,
  });
}

/** Runs `doctor`, which exits with 1 when it has only warnings. @param {Record<string, string>} environment */
function diagnose(environment) {
  try {
    petstore(['doctor'], { ...environment, PORT: '0', METRICS_PORT: '0' });
  } catch (error) {
    if (error.status !== 1) {
      throw error;
    }
  }
}

/** @param {string} help the output of --help @returns {string[]} the names of the commands in it */
function commandsIn(help) {
  const [, list = ''] = help.split('\nCommands:\n');
  return [...list.split('\n\n')[0].matchAll(/^ {2}([a-z-]+)/gm)]
    .map(([, name]) => name)
    .filter((name) => name !== 'help');
}

/** Starts the service, lists the orders with a key, and stops it. @param {string} databaseUrl @param {string} key */
async function serveAndList(databaseUrl, key) {
  run.push('serve');
  const service = spawn(process.execPath, ['dist/cli.js', 'serve'], {
    cwd: tree,
    env: {
      PATH: process.env.PATH ?? '',
      NODE_ENV: 'production',
      DATABASE_URL: databaseUrl,
      PORT: '0',
      METRICS_PORT: '0',
      // Loads the tracing, which is loaded only when it is configured; nothing listens there.
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = new Promise((resolve) => service.once('exit', resolve));
  const timeout = setTimeout(() => service.kill('SIGKILL'), START_TIMEOUT_MS);
  try {
    const port = await new Promise((resolve, reject) => {
      let output = '';
      service.stdout.on('data', (chunk) => {
        output += String(chunk);
        const found = /"port":(\d+),"msg":"listening"/.exec(output)?.[1];
        if (found !== undefined) {
          resolve(found);
        }
      });
      service.once('exit', () => reject(new Error(`The service has ended: ${output}`)));
    });
    const response = await fetch(`http://127.0.0.1:${port}/v1/store/orders`, {
      headers: { Authorization: `Bearer ${key}` },
    });
    const orders = await response.json();
    if (response.status !== 200 || orders.length !== 3) {
      throw new Error(`GET /v1/store/orders responded ${response.status} with ${JSON.stringify(orders)}`);
    }
    service.kill('SIGTERM');
    const exitCode = await exited;
    if (exitCode !== 0) {
      throw new Error(`The service exited with ${String(exitCode)}.`);
    }
  } finally {
    clearTimeout(timeout);
    service.kill('SIGKILL');
  }
}

try {
  for (const name of ['package.json', 'package-lock.json', '.npmrc', 'dist', 'prisma/engine']) {
    cpSync(join(ROOT, name), join(tree, name), { recursive: true });
  }
  // Links, where the file system can: nothing here writes to the files.
  execFileSync('sh', ['-c', 'cp -al node_modules "$0" 2>/dev/null || cp -a node_modules "$0"', tree], { cwd: ROOT });
  execFileSync('npm', ['prune', '--omit=dev', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: tree,
    stdio: 'inherit',
  });
  const server = await PostgresServer.start({ folder: data, settings: { fsync: 'off' } });
  try {
    const databaseUrl = server.url('postgres');
    await migrate(databaseUrl);
    const environment = { DATABASE_URL: databaseUrl };
    const csv = join(data, 'orders.csv');
    writeFileSync(csv, 'id,petId,quantity\n1,7,1\n');
    petstore(['orders', 'import', csv], environment);
    petstore(['orders', 'import', '-'], environment, 'id,petId,quantity\n2,7,1\n');
    petstore(['seed', '--orders', '3', '--force'], environment);
    petstore(['orders', 'show', '1'], environment);
    const issued = petstore(['keys', 'issue', '--name', 'check', '--plan', 'free', '--json'], environment);
    const id = ID.exec(issued)?.[1] ?? '';
    petstore(['keys', 'list'], environment);
    petstore(['keys', 'show', id], environment);
    petstore(['keys', 'set-plan', id, '--plan', 'pro'], environment);
    const { key } = JSON.parse(petstore(['keys', 'rotate', id, '--json'], environment));
    petstore(['keys', 'usage'], environment);
    petstore(['keys', 'unban', id], environment);
    petstore(['keys', 'revoke', id], environment);
    petstore(['openapi'], {});
    diagnose(environment);
    await serveAndList(databaseUrl, key);
  } finally {
    await server.stop();
  }
  const groups = commandsIn(petstore(['--help'], {}));
  const commands = groups.flatMap((group) => {
    const inside = commandsIn(petstore([group, '--help'], {}));
    return inside.length === 0 ? [group] : inside.map((name) => `${group} ${name}`);
  });
  const missing = commands.filter(
    (command) => !run.some((line) => `${line} `.startsWith(`${command} `) && !line.endsWith('--help')),
  );
  if (commands.length === 0 || missing.length > 0) {
    throw new Error(`This check must run every command; add: ${missing.join(', ')}`);
  }
  process.stdout.write(`${commands.length} commands run without development dependencies\n`);
} finally {
  rmSync(tree, { recursive: true, force: true });
  rmSync(data, { recursive: true, force: true });
}
