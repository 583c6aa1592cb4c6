#!/usr/bin/env node
// Prisma's schema engine, run by the Prisma CLI in place of the native one that it would download: the same arguments,
// the same protocol, the same engine compiled to WebAssembly. prisma.config.ts says why.
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { createDatabase, ensureConnection } from './database.mjs';
import { Engine } from './engine.mjs';
import { toCliError } from './errors.mjs';
import { loadWasm } from './wasm.mjs';

/** The JSON-RPC error code of the native engine. */
const ENGINE_ERROR = 4466;

/** @type {Partial<Record<string, (url: string) => Promise<unknown>>>} */
const COMMANDS = { 'can-connect-to-database': ensureConnection, 'create-database': createDatabase };

let printed = 0;

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
  log('INFO', { message: 'Starting schema engine' });
  const { url } = JSON.parse(values.datasource);
  const [cli, name = ''] = positionals;
  if (cli === undefined) {
    await serve(url, values.datamodels);
    return;
  }
  const command = COMMANDS[name];
  if (cli !== 'cli' || command === undefined) throw new Error(`Unknown command: ${positionals.join(' ')}`);
  if (!url) throw new Error('The option --datasource gives no URL.');
  await command(url);
}

/**
 * Handles JSON-RPC 2.0 requests, one per line and one at a time, until stdin ends or a signal arrives.
 *
 * @param {string} url
 * @param {string[]} paths of the schema files
 */
async function serve(url, paths) {
  const datamodels = await Promise.all(
    paths.map(async (path) => /** @type {[string, string]} */ ([path, await readFile(path, 'utf8')])),
  );
  // Text for the standard output of the CLI is a request among the responses.
  const engine = new Engine(url, datamodels, (text) => {
    send({ id: ++printed, method: 'print', params: { content: text.replace(/\n$/, '') } });
  });
  const lines = createInterface({ input: process.stdin, crlfDelay: Infinity });
  let calls = 0;
  // The CLI ends every run with SIGTERM when all calls are complete; Ctrl-C reaches both processes.
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.on(signal, () => {
      if (calls > 0) {
        // The CLI takes exit code 0 for success.
        log('ERROR', { message: `The schema engine was ended by ${signal}.` });
        process.exitCode = 1;
      }
      lines.close();
    });
  }
  lines.once('close', () => void engine.close().finally(() => process.exit()));
  // When the CLI has exited, still drop the shadow database.
  process.stdout.on('error', () => {});
  // A panic of the engine happens in a microtask and rejects no promise. It needs a response like any other error:
  // when the process crashes instead, the CLI reports nothing and exits with 0.
  const panicked = new Promise((_resolve, reject) => process.on('uncaughtException', reject));
  panicked.catch(() => {});
  for await (const line of lines) {
    const { id, method, params } = JSON.parse(line);
    // The CLI's response to a print request.
    if (method === undefined) continue;
    calls++;
    try {
      send({ id, result: (await Promise.race([engine.call(method, params), panicked])) ?? null });
    } catch (error) {
      const message = 'An error happened. Check the data field for details.';
      send({ id, error: { code: ENGINE_ERROR, message, data: toCliError(error) } });
    } finally {
      calls--;
    }
  }
}

/** @param {Record<string, unknown>} message */
function send(message) {
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
}

/**
 * Writes a log line in the format that the CLI expects: JSON on stderr, as the `tracing` crate of Rust writes it. The CLI
 * skips the first line and takes the error from the last `ERROR` line with this target.
 *
 * @param {'INFO' | 'ERROR'} level
 * @param {{ message: string }} fields
 */
function log(level, fields) {
  const line = { timestamp: new Date().toISOString(), level, fields, target: 'schema_engine::logger' };
  process.stderr.write(`${JSON.stringify(line)}\n`);
}

// The CLI fails on a line that is not JSON, so log the warnings of Node and its packages as JSON too.
process.removeAllListeners('warning').on('warning', ({ message }) => log('INFO', { message }));
await main().catch((error) => {
  log('ERROR', toCliError(error));
  process.exitCode = 1;
});
