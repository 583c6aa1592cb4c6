import { createAdapterFactory, createOfflineAdapterFactory } from './adapter-factory.mjs';
import { createDatabase, ensureConnection } from './database.mjs';
import { migrationFailed } from './user-facing-error.mjs';
import { loadWasm } from './wasm.mjs';

/** @import { ApplyMigrationsInput, ApplyMigrationsOutput, DiffParams, DiffResult } from '@prisma/schema-engine-wasm' */
/** @import { EvaluateDataLossInput, EvaluateDataLossOutput, SchemaEngine } from '@prisma/schema-engine-wasm' */
/** @import { FailedScript, Session } from './session.mjs' */

/** Methods of the CLI that the WebAssembly engine has with the same name, parameters and result. */
const SAME_IN_WASM = new Set([
  'createMigration',
  'dbExecute',
  'debugPanic',
  'devDiagnostic',
  'diagnoseMigrationHistory',
  'introspect',
  'markMigrationApplied',
  'markMigrationRolledBack',
  'reset',
  'schemaPush',
]);

/** The methods of the native schema engine, implemented with the WebAssembly engine and `pg`. */
export class Engine {
  #url;
  #datamodels;
  #print;
  /** @type {Session[]} */
  #sessions = [];
  /** @type {Promise<SchemaEngine> | undefined} */
  #connected;
  /** @type {FailedScript | undefined} */
  #failedScript;

  /**
   * @param {object} options
   * @param {string | undefined} options.url of the database; not needed to compare schema files
   * @param {[path: string, content: string][]} options.datamodels the schema files
   * @param {(text: string) => void} options.print writes to the standard output of the CLI
   */
  constructor({ url, datamodels, print }) {
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
    switch (method) {
      case 'ensureConnectionValidity':
        return ensureConnection(this.#requireUrl());
      case 'createDatabase':
        return { databaseName: await createDatabase(this.#requireUrl()) };
      case 'getDatabaseVersion':
        return (await this.#connect()).version();
      case 'diff':
        return this.#diff(params);
      case 'applyMigrations':
        return this.#applyMigrations(params);
      case 'evaluateDataLoss':
        return this.#evaluateDataLoss(params);
    }
    if (!SAME_IN_WASM.has(method)) throw new Error(`The WebAssembly schema engine does not offer ${method}.`);
    const engine = /** @type {unknown} */ (await this.#connect());
    return /** @type {Record<string, (params: unknown) => unknown>} */ (engine)[method]?.(params);
  }

  /** Cancels running statements; the calls that wait for them fail and clean up. */
  async cancel() {
    await Promise.all(this.#sessions.map((session) => session.cancel()));
  }

  async close() {
    await Promise.all(this.#sessions.map((session) => session.close()));
  }

  /**
   * @param {DiffParams} params
   * @returns {Promise<DiffResult>}
   */
  async #diff(params) {
    const needsDatabase = [params.from, params.to].some(({ tag }) => tag !== 'empty' && tag !== 'schemaDatamodel');
    const engine = needsDatabase ? await this.#connect() : await this.#start(createOfflineAdapterFactory());
    const { exitCode, stdout } = await engine.diff(params);
    if (stdout) this.#print(stdout);
    return { exitCode, stdout: null };
  }

  /**
   * @param {ApplyMigrationsInput} params
   * @returns {Promise<ApplyMigrationsOutput>}
   */
  async #applyMigrations(params) {
    const engine = await this.#connect();
    this.#failedScript = undefined;
    try {
      return await engine.applyMigrations(params);
    } catch (error) {
      // The WebAssembly engine reports a failed script as an "external connector error", without code and name.
      throw this.#failedScript ? migrationFailed(this.#failedScript, params.migrationsList) : error;
    }
  }

  /**
   * @param {EvaluateDataLossInput} params
   * @returns {Promise<EvaluateDataLossOutput>}
   */
  async #evaluateDataLoss(params) {
    const engine = await this.#connect();
    // It reads the result of all migrations from a cache that `migrate dev` filled before it applied the pending ones.
    // Another diagnosis replays those too.
    await engine.devDiagnostic({ migrationsList: params.migrationsList, filters: params.filters });
    return engine.evaluateDataLoss(params);
  }

  #connect() {
    this.#connected ??= (async () => {
      const url = this.#requireUrl();
      // The engine reports a failure of its own first query without a code.
      await ensureConnection(url);
      const adapterFactory = createAdapterFactory(url, {
        onSession: (session) => void this.#sessions.push(session),
        onScriptError: (failure) => void (this.#failedScript = failure),
        onWarning: (message) => this.#print(`Warning from the database: ${message}`),
      });
      return this.#start(adapterFactory);
    })();
    return this.#connected;
  }

  /** @param {ReturnType<typeof createAdapterFactory>} adapterFactory */
  async #start(adapterFactory) {
    const { SchemaEngine } = await loadWasm();
    // The engine panics on an empty list.
    const datamodels = this.#datamodels.length > 0 ? this.#datamodels : undefined;
    return SchemaEngine.new({ datamodels }, forwardLog, adapterFactory);
  }

  #requireUrl() {
    if (!this.#url) throw new Error('This command needs a database: set DATABASE_URL.');
    return this.#url;
  }
}

/** @param {string} line a log line of the engine, in the format that the CLI expects */
function forwardLog(line) {
  process.stderr.write(`${line.trimEnd()}\n`);
}
