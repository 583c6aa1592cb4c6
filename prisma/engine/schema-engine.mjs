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
      // Taken because the CLI may send them; this schema has neither.
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
  // The CLI ends every run with SIGTERM, when nothing is under way any more; a Ctrl-C reaches us as it reaches the CLI.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => stop.abort());
  // A CLI that is gone reads no answer, which is no reason to leave a failure unrecorded or a shadow database behind.
  process.stdout.on('error', () => {});
  await serve(engine, stop.signal);
  await engine.close();
  // Timers of the engine, such as the one on its advisory lock, outlive what they were set for.
  process.exit();
}

/** @param {unknown} error */
function fail(error) {
  log('ERROR', describe(error), { is_panic: false, error_code: prismaCode(error) });
  process.exitCode = 1;
}

// Warnings of Node and its packages go the way of every other line: the CLI gives up on one that is not JSON.
process.removeAllListeners('warning').on('warning', (warning) => log('INFO', warning.message));
await main().catch(fail);
