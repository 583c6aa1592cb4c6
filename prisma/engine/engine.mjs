import { createAdapterFactory, createOfflineAdapterFactory } from './adapter-factory.mjs';
import { createDatabase, ensureConnection } from './database.mjs';
import { migrationFailed } from './user-facing-error.mjs';
import { loadWasm } from './wasm.mjs';

/** @import { ApplyMigrationsInput, ApplyMigrationsOutput, DiffParams, DiffResult } from '@prisma/schema-engine-wasm' */
/** @import { EvaluateDataLossInput, EvaluateDataLossOutput, SchemaEngine } from '@prisma/schema-engine-wasm' */
/** @import { FailedScript, Session } from './session.mjs' */

/** What the CLI calls and the WebAssembly engine offers under the same name, with the same parameters and result. */
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

/** The methods of the native schema engine, on the WebAssembly engine and `pg`. */
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
   * @param {string | undefined} options.url of the database; comparing schema files needs none
   * @param {[path: string, content: string][]} options.datamodels the schema files, for their namespaces
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
   * @throws whatever the engine, the driver or the server has to say
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

  /** Stops what is running in the database, upon which the call that waits for it fails and tidies up after itself. */
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
      // The WebAssembly engine knows a failed script only as an "external connector error", without code and name.
      throw this.#failedScript ? migrationFailed(this.#failedScript, params.migrationsList) : error;
    }
  }

  /**
   * @param {EvaluateDataLossInput} params
   * @returns {Promise<EvaluateDataLossOutput>}
   */
  async #evaluateDataLoss(params) {
    const engine = await this.#connect();
    // It wants the outcome of all migrations and looks for it in a cache only. `migrate dev` fills the cache by this
    // question before it applies the pending ones, which are then missing; asked again, it replays them too.
    await engine.devDiagnostic({ migrationsList: params.migrationsList, filters: params.filters });
    return engine.evaluateDataLoss(params);
  }

  #connect() {
    this.#connected ??= (async () => {
      const url = this.#requireUrl();
      // The engine words the failure of its own first query without a code.
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
    // It takes one or more schema files, or none at all, but panics over an empty list of them.
    const datamodels = this.#datamodels.length > 0 ? this.#datamodels : undefined;
    return SchemaEngine.new({ datamodels }, passOnLog, adapterFactory);
  }

  #requireUrl() {
    if (!this.#url) throw new Error('This command needs a database: set DATABASE_URL.');
    return this.#url;
  }
}

/** @param {string} line what the engine logs; it is in the form that the CLI expects */
function passOnLog(line) {
  process.stderr.write(`${line.trimEnd()}\n`);
}
