#!/usr/bin/env node
// Prisma's schema engine, run by the Prisma CLI in place of the native one that it would download: the same arguments,
// the same protocol, the same engine compiled to WebAssembly. prisma.config.ts says why.
import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { createDatabase, dropDatabase, ensureConnection } from './database.mjs';
import { Engine } from './engine.mjs';
import { print, serve } from './json-rpc.mjs';
import { log } from './log.mjs';
import { describe, prismaCode } from './user-facing-error.mjs';
import { loadWasm } from './wasm.mjs';

/** @type {Partial<Record<string, (url: string) => Promise<unknown>>>} */
const COMMANDS = {
  'can-connect-to-database': ensureConnection,
  'create-database': createDatabase,
  'drop-database': dropDatabase,
};

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      version: { type: 'boolean', short: 'V' },
      datamodels: { type: 'string', short: 'd', multiple: true, default: [] },
      datasource: { type: 'string', default: '{}' },
      // Accepted because the CLI may send them; this schema uses neither.
      'enabled-preview-features': { type: 'string' },
      'extension-types': { type: 'string' },
    },
  });
  if (values.version) {
    const { version } = await loadWasm();
    process.stdout.write(`schema-engine-cli ${version()}\n`);
    return;
  }
  log('INFO', 'Starting schema engine');
  const { url } = JSON.parse(values.datasource);
  const [cli, name = ''] = positionals;
  if (cli === undefined) {
    await runServer(url, values.datamodels);
    return;
  }
  const command = COMMANDS[name];
  if (cli !== 'cli' || command === undefined) throw new Error(`Unknown command: ${positionals.join(' ')}`);
  if (!url) throw new Error('The option --datasource gives no URL.');
  await command(url);
}

/**
 * @param {string | undefined} url
 * @param {string[]} paths of the schema files
 */
async function runServer(url, paths) {
  const datamodels = await Promise.all(
    paths.map(async (path) => /** @type {[string, string]} */ ([path, await readFile(path, 'utf8')])),
  );
  const engine = new Engine({ url, datamodels, print });
  const stop = new AbortController();
  // The CLI ends every run with SIGTERM when all calls are complete; Ctrl-C reaches both processes.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => stop.abort());
  // When the CLI has exited, still record failures and drop the shadow database.
  process.stdout.on('error', () => {});
  await serve(engine, stop.signal);
  await engine.close();
  // The engine leaves timers behind, such as the one for its advisory lock.
  process.exit();
}

/** @param {unknown} error */
function fail(error) {
  log('ERROR', describe(error), { is_panic: false, error_code: prismaCode(error) });
  process.exitCode = 1;
}

// The CLI fails on a line that is not JSON, so log the warnings of Node and its packages as JSON too.
process.removeAllListeners('warning').on('warning', (warning) => log('INFO', warning.message));
await main().catch(fail);
