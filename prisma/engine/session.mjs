import { PrismaPg } from '@prisma/adapter-pg';
import { ColumnTypeEnum, DriverAdapterError } from '@prisma/driver-adapter-utils';
import pg from 'pg';
import { connectionTimeoutMillis, withClient } from './database.mjs';
import { describeFailedScript } from './user-facing-error.mjs';

/** @import { SqlDriverAdapter } from '@prisma/driver-adapter-utils' */
/** @typedef {{ script: string, error: unknown }} FailedScript */

/** The class of SQLSTATE codes that warnings have; mere notices have another, whatever language the server speaks. */
const WARNING_CLASS = '01';

/** Object identifiers of `"char"`, the single byte in which the catalogue keeps its codes, and of an array of it. */
const TypeOid = Object.freeze({ singleByte: 18, singleByteArray: 1002 });

/**
 * One session with the server, in the form of the pool that `@prisma/adapter-pg` asks for. It stays the same to the end
 * because the engine's advisory lock belongs to the session that took it: a pool as it comes replaces its connection
 * after any failed query, and would from then on migrate beside whoever holds the lock by now.
 */
export class Session extends pg.Pool {
  #url;
  #onWarning;
  #afterClose;
  #running = 0;
  /** @type {Promise<pg.PoolClient> | undefined} */
  #client;
  /** @type {Promise<void> | undefined} */
  #closed;

  /**
   * @param {string} url
   * @param {object} [options]
   * @param {(message: string) => void} [options.onWarning] hears the warnings of what runs in the session
   * @param {() => Promise<void>} [options.afterClose] what there is to do once the session has ended
   */
  constructor(url, { onWarning, afterClose } = {}) {
    super({ connectionString: url, connectionTimeoutMillis, max: 1 });
    this.#url = url;
    this.#onWarning = onWarning;
    this.#afterClose = afterClose;
  }

  /**
   * @override
   * @param {any[]} args
   * @returns {Promise<any>}
   */
  async query(...args) {
    try {
      return await this.#run(...args);
    } catch (error) {
      // The adapter has no name for a connection that is lost, and the engine no words for an error without one.
      throw error instanceof pg.DatabaseError ? error : new DriverAdapterError({ kind: 'ConnectionClosed' });
    }
  }

  /**
   * @param {(failure: FailedScript) => void} [onScriptError] hears what the adapter's error types cannot carry
   * @returns {Promise<SqlDriverAdapter>}
   */
  async toAdapter(onScriptError) {
    const adapter = await new PrismaPg(this).connect();

    const queryRaw = adapter.queryRaw.bind(adapter);
    adapter.queryRaw = async (query) => {
      const { columnTypes, ...rest } = await queryRaw(query);
      const { Character, CharacterArray } = ColumnTypeEnum;
      return { ...rest, columnTypes: columnTypes.map((type) => (type === CharacterArray ? Character : type)) };
    };

    // One simple query, as the native engine sends it: PostgreSQL then runs the script as one transaction. The adapter
    // itself cuts a script at every semicolon, through function bodies and literals, and commits piece by piece.
    adapter.executeScript = async (script) => {
      try {
        await this.#run(script);
      } catch (error) {
        onScriptError?.({ script, error });
        // Under a code of its own the engine would put general words in the place of the server's.
        throw rawQueryError(describeFailedScript({ script, error }));
      }
    };

    // It would ask for a second connection, and wait for it for ever. The engine has no transactions for PostgreSQL.
    adapter.startTransaction = () => Promise.reject(new Error('The schema engine runs without transactions.'));
    adapter.dispose = () => this.close();
    return adapter;
  }

  /** Stops what is running, if anything is. A script is one transaction, so nothing of it stays behind. */
  async cancel() {
    if (this.#running === 0) return;
    const { processID } = /** @type {{ processID?: number }} */ (/** @type {unknown} */ (await this.#connect()));
    await withClient(this.#url, (client) => client.query('SELECT pg_cancel_backend($1)', [processID]));
  }

  /** Ends the session, once, however often it is asked to. */
  close() {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close() {
    // The engine gives up waiting for its advisory lock on its own side only; the statement still waits.
    await this.cancel();
    const client = await this.#client?.catch(() => undefined);
    client?.release(true);
    await this.end();
    await this.#afterClose?.();
  }

  /**
   * @param {any[]} args
   * @returns {Promise<any>}
   */
  async #run(...args) {
    const client = await this.#connect();
    this.#running += 1;
    try {
      const result = await client.query(.../** @type {[any]} */ (args));
      // The adapter throws at a column of type "char", though not at an array of it, which the engine reads nowhere. So
      // such a column goes through the adapter by the array's name and gets its own back in `queryRaw` above.
      for (const field of result.fields ?? []) {
        if (field.dataTypeID === TypeOid.singleByte) field.dataTypeID = TypeOid.singleByteArray;
      }
      return result;
    } finally {
      this.#running -= 1;
    }
  }

  #connect() {
    this.#client ??= this.connect().then((client) => {
      // The next query reports a lost connection; an unheard error event would end the process.
      client.on('error', () => {});
      client.on('notice', ({ code, message = '' }) => {
        if (code?.startsWith(WARNING_CLASS)) this.#onWarning?.(message);
      });
      return client;
    });
    return this.#client;
  }
}

/**
 * The one kind of the adapter's errors whose message the engine passes on as it is, below the code that it knows.
 *
 * @param {string} message
 */
export function rawQueryError(message) {
  const absent = { detail: undefined, column: undefined, hint: undefined };
  return new DriverAdapterError({ kind: 'postgres', severity: 'ERROR', code: 'none', message, ...absent });
}
