// Runs every command, and the service, in a copy of the build without the development dependencies, as `npm ci --omit=dev` would
// install it: a package that only they bring fails here and not in production.
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { migrate } from '../dist/cli/embedded/migrate.js';
import { PostgresServer } from '../dist/cli/embedded/postgres-server.js';
import { withProcess } from '../test/helpers/with-process.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const START_TIMEOUT_MS = 60_000;
const ID = /"id": "([0-9a-f-]{36})"/;

const tree = mkdtempSync(join(tmpdir(), 'petstore-production-'));
const data = mkdtempSync(join(tmpdir(), 'petstore-production-data-'));
const ran = [];

/**
 * Runs a command of the tree, in this process: the starts would take most of the time.
 * @param {string[]} args
 * @param {Record<string, string>} environment
 * @param {string} input
 * @returns {Promise<{ stdout: string, exitCode: number }>}
 */
async function run(args, environment, input = '') {
  ran.push(args.join(' '));
  const { runCommand } = await import(pathToFileURL(join(tree, 'dist/cli/run-command.js')).href);
  const stdout = new PassThrough();
  const output = text(stdout);
  const replaced = {
    stdout,
    stdin: Readable.from([Buffer.from(input)]),
    env: { NODE_ENV: 'production', ...environment },
  };
  const exitCode = await withProcess(replaced, () => runCommand(args)).finally(() => stdout.end());
  return { exitCode, stdout: await output };
}

/** @returns {Promise<string>} stdout @throws {Error} unless it succeeds */
async function petstore(/** @type {Parameters<typeof run>} */ ...command) {
  const { exitCode, stdout } = await run(...command);
  if (exitCode !== 0) {
    throw new Error(`petstore ${command[0].join(' ')} exited with ${exitCode}.`);
  }
  return stdout;
}

/** Runs `doctor`, which exits with 1 when it has only warnings. @param {Record<string, string>} environment */
async function diagnose(environment) {
  const { exitCode, stdout } = await run(['doctor'], { ...environment, PORT: '0', METRICS_PORT: '0' });
  if (exitCode > 1) {
    throw new Error(stdout);
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
  ran.push('serve');
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
  // Links, where the file system can: nothing here writes to the files, except npm to its record of them.
  const copy =
    'cp -al node_modules "$0" 2>/dev/null || cp -a node_modules "$0"; rm "$0/node_modules/.package-lock.json"';
  execFileSync('sh', ['-ec', copy, tree], { cwd: ROOT });
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
    await petstore(['orders', 'import', csv], environment);
    await petstore(['orders', 'import', '-'], environment, 'id,petId,quantity\n2,7,1\n');
    await petstore(['seed', '--orders', '3', '--force'], environment);
    await petstore(['orders', 'show', '1'], environment);
    const issued = await petstore(['keys', 'issue', '--name', 'check', '--plan', 'free', '--json'], environment);
    const id = ID.exec(issued)?.[1] ?? '';
    await petstore(['keys', 'list'], environment);
    await petstore(['keys', 'show', id], environment);
    await petstore(['keys', 'set-plan', id, '--plan', 'pro'], environment);
    const { key } = JSON.parse(await petstore(['keys', 'rotate', id, '--json'], environment));
    await petstore(['keys', 'usage'], environment);
    await petstore(['keys', 'unban', id], environment);
    await petstore(['keys', 'revoke', id], environment);
    await petstore(['openapi'], {});
    await diagnose(environment);
    await serveAndList(databaseUrl, key);
  } finally {
    await server.stop();
  }
  const commands = [];
  for (const group of commandsIn(await petstore(['--help'], {}))) {
    const inside = commandsIn(await petstore([group, '--help'], {}));
    commands.push(...(inside.length === 0 ? [group] : inside.map((name) => `${group} ${name}`)));
  }
  const missing = commands.filter(
    (command) => !ran.some((line) => `${line} `.startsWith(`${command} `) && !line.endsWith('--help')),
  );
  if (commands.length === 0 || missing.length > 0) {
    throw new Error(`This check must run every command; add: ${missing.join(', ')}`);
  }
  process.stdout.write(`${commands.length} commands run without development dependencies\n`);
} finally {
  rmSync(tree, { recursive: true, force: true });
  rmSync(data, { recursive: true, force: true });
}
