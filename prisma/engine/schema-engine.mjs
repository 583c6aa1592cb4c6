#!/usr/bin/env node
// Prisma's schema engine, run by the Prisma CLI in place of the native one that it would download: the same arguments,
// the same protocol, the same engine compiled to WebAssembly. prisma.config.ts says why.
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { createAdapterFactory } from './adapter.mjs';
import { connect, createDatabase, withClient } from './database.mjs';
import { othersInSchema } from './others-in-schema.mjs';
import { SHARED_SERVERS, sharesServers } from './pooler.mjs';
import { printable } from './printable.mjs';
import { loadWasm } from './wasm.mjs';

/** The JSON-RPC error code of the native engine. */
const ENGINE_ERROR = 4466;

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
const { url } = JSON.parse(values.datasource);

/**
 * Writes a log line in the format that the CLI expects: JSON on stderr, as the `tracing` crate of Rust writes it. The CLI
 * skips the first line and takes the error from the last `ERROR` line.
 *
 * @param {'INFO' | 'ERROR'} level
 * @param {{ message: string }} fields
 */
function log(level, fields) {
  const line = { timestamp: new Date().toISOString(), level, fields, target: 'schema_engine::logger' };
  process.stderr.write(`${JSON.stringify(line)}\n`);
}

/** @param {Record<string, unknown>} message */
function send(message) {
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
}

/** @param {string} text for the standard output of the CLI: a request among the responses */
function print(text) {
  send({ id: 0, method: 'print', params: { content: printable(text) } });
}

/** @param {any} error @returns what the CLI expects */
const errorData = ({ message, code }) => ({
  is_panic: false,
  message: printable(message),
  error_code: /^P\d{4}$/.test(code) ? code : undefined,
});

const loadEngine = () => loadWasm((message) => log('ERROR', { message }));

async function startEngine() {
  if (!url) throw new Error('This command needs a database: set DATABASE_URL.');
  // The migration would leave its locks to others.
  if (await sharesServers(() => connect(url))) throw new Error(SHARED_SERVERS);
  const others = await withClient(url, othersInSchema);
  if (others !== undefined) throw new Error(`${others.message}. ${others.remedy}`);
  const { SchemaEngine } = await loadEngine();
  const datamodels = await Promise.all(
    values.datamodels.map(async (path) => /** @type {[string, string]} */ ([path, await readFile(path, 'utf8')])),
  );
  return SchemaEngine.new(
    // The engine panics on an empty list.
    { datamodels: datamodels.length > 0 ? datamodels : undefined },
    (/** @type {string} */ line) => process.stderr.write(`${line.trimEnd()}\n`),
    createAdapterFactory(url, (message) => print(`Warning from the database: ${message}`)),
  );
}

/**
 * Calls the method of the WebAssembly engine that the CLI means, which mostly has the same name, parameters and result.
 *
 * @param {any} engine
 * @param {string} method
 * @param {any} params
 */
async function call(engine, method, params) {
  switch (method) {
    case 'getDatabaseVersion':
      return engine.version();
    case 'diff': {
      const { exitCode, stdout } = await engine.diff(params);
      if (stdout) print(stdout.replace(/\n$/, ''));
      return { exitCode, stdout: null };
    }
    case 'evaluateDataLoss':
      // It reads the result of all migrations from a cache that `migrate dev` filled before it applied the pending ones.
      // Another diagnosis replays those too.
      await engine.devDiagnostic({ migrationsList: params.migrationsList, filters: params.filters });
  }
  return engine[method](params);
}

/** Handles JSON-RPC 2.0 requests, one per line and one at a time, until the CLI closes stdin or ends this process. */
async function serve() {
  /** @type {Promise<unknown> | undefined} */
  let engine;
  for await (const line of createInterface({ input: process.stdin })) {
    const { id, method, params } = JSON.parse(line);
    // The CLI's response to a print request.
    if (method === undefined) continue;
    try {
      send({ id, result: (await call(await (engine ??= startEngine()), method, params)) ?? null });
    } catch (error) {
      const message = 'An error happened. Check the data field for details.';
      send({ id, error: { code: ENGINE_ERROR, message, data: errorData(error) } });
    }
  }
  process.exit();
}

// The CLI fails on a line that is not JSON, so log the warnings of Node and its packages as JSON too.
process.removeAllListeners('warning').on('warning', ({ message }) => log('INFO', { message }));
try {
  if (values.version) {
    console.log(`schema-engine-cli ${(await loadEngine()).version()}`);
  } else {
    log('INFO', { message: 'Starting schema engine' });
    const [, command] = positionals;
    if (command === 'can-connect-to-database') await withClient(url, () => Promise.resolve());
    else if (command === 'create-database') await createDatabase(url);
    else await serve();
  }
} catch (error) {
  log('ERROR', errorData(error));
  process.exitCode = 1;
}
