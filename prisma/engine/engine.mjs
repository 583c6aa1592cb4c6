import { createAdapterFactory } from './adapter.mjs';
import { connect } from './database.mjs';
import { describeFailedScript, PrismaError } from './errors.mjs';
import { warningOfOthers } from './others-in-schema.mjs';
import { SHARED_SERVERS, sharesServers } from './pooler.mjs';
import { loadWasm } from './wasm.mjs';

/** @import { ApplyMigrationsInput, MigrationList, SchemaEngine } from '@prisma/schema-engine-wasm' */

/** Methods of the CLI that the WebAssembly engine has with the same name, parameters and result. */
const SAME_IN_WASM = new Set([
  'createMigration',
  'dbExecute',
  'devDiagnostic',
  'diagnoseMigrationHistory',
  'introspect',
  'markMigrationApplied',
  'markMigrationRolledBack',
  'reset',
  'schemaPush',
]);

/** The methods of the native schema engine that `migrate` needs, over the WebAssembly engine and `pg`. */
export class Engine {
  #url;
  #datamodels;
  #print;
  /** @type {(() => Promise<void>)[]} */
  #closers = [];
  /** @type {Promise<SchemaEngine> | undefined} */
  #started;
  /** @type {{ script: string, error: unknown } | undefined} */
  #failure;

  /**
   * @param {string} url of the database
   * @param {[path: string, content: string][]} datamodels the schema files
   * @param {(text: string) => void} print writes to the standard output of the CLI
   */
  constructor(url, datamodels, print) {
    this.#url = url;
    this.#datamodels = datamodels;
    this.#print = print;
  }

  /**
   * @param {string} method
   * @param {any} params
   * @returns {Promise<unknown>}
   * @throws the error of the engine, the driver or the server
   */
  async call(method, params) {
    if (!this.#url) throw new Error('This command needs a database: set DATABASE_URL.');
    this.#started ??= this.#start();
    const engine = await this.#started;
    switch (method) {
      case 'getDatabaseVersion':
        return engine.version();
      case 'diff': {
        const { exitCode, stdout } = await engine.diff(params);
        if (stdout) this.#print(stdout);
        return { exitCode, stdout: null };
      }
      case 'applyMigrations':
        return this.#applyMigrations(engine, params);
      case 'evaluateDataLoss':
        // It reads the result of all migrations from a cache that `migrate dev` filled before it applied the pending ones.
        // Another diagnosis replays those too.
        await engine.devDiagnostic({ migrationsList: params.migrationsList, filters: params.filters });
        return engine.evaluateDataLoss(params);
    }
    if (!SAME_IN_WASM.has(method)) throw new Error(`The schema engine of this project does not support ${method}.`);
    return /** @type {Record<string, (params: unknown) => unknown>} */ (/** @type {unknown} */ (engine))[method]?.(
      params,
    );
  }

  /** Ends the connections and drops the shadow databases. */
  async close() {
    await Promise.allSettled(this.#closers.map((close) => close()));
  }

  /**
   * @param {SchemaEngine} engine
   * @param {ApplyMigrationsInput} params
   */
  async #applyMigrations(engine, params) {
    this.#failure = undefined;
    try {
      return await engine.applyMigrations(params);
    } catch (error) {
      // The WebAssembly engine reports a failed script as an "external connector error", without code and name.
      throw this.#failure ? migrationFailed(this.#failure, params.migrationsList) : error;
    }
  }

  async #start() {
    // The engine reports a failure of its own first query without a code.
    await ensureSafety(this.#url);
    const { SchemaEngine } = await loadWasm();
    const adapterFactory = createAdapterFactory(this.#url, {
      onOpen: (close) => void this.#closers.push(close),
      onScriptError: (script, error) => void (this.#failure = { script, error }),
      onWarning: (message) => this.#print(`Warning from the database: ${message}`),
    });
    // The engine panics on an empty list.
    const datamodels = this.#datamodels.length > 0 ? this.#datamodels : undefined;
    const log = (/** @type {string} */ line) => void process.stderr.write(`${line.trimEnd()}\n`);
    return SchemaEngine.new({ datamodels }, log, adapterFactory);
  }
}

/**
 * @param {string} url
 * @throws {Error} when the migration could run the code of others with its privileges, or would leave its locks to others
 */
async function ensureSafety(url) {
  if (await sharesServers(() => connect(url))) {
    throw new Error(SHARED_SERVERS);
  }
  const client = await connect(url);
  const problem = await warningOfOthers(client).finally(() => client.end());
  if (problem !== undefined) {
    throw new Error(problem);
  }
}

/**
 * @param {{ script: string, error: unknown }} failure
 * @param {MigrationList} migrations to find the name of the failed one
 */
function migrationFailed({ script, error }, { migrationDirectories }) {
  const migration = migrationDirectories.find(
    ({ migrationFile: { content } }) => 'value' in content && content.value === script,
  );
  return new PrismaError(
    'P3018',
    'A migration failed to apply. New migrations cannot be applied before the error is recovered from. Read more ' +
      'about how to resolve migration issues in a production database: https://pris.ly/d/migrate-resolve\n\n' +
      `Migration name: ${migration?.path ?? 'unknown'}\n\nDatabase error:\n${describeFailedScript(script, error)}`,
    { cause: error },
  );
}
