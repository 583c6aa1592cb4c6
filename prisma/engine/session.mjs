import { PrismaPg } from '@prisma/adapter-pg';
import { ColumnTypeEnum, DriverAdapterError } from '@prisma/driver-adapter-utils';
import pg from 'pg';
import { connectionTimeoutMillis, withClient } from './database.mjs';
import { describeFailedScript } from './user-facing-error.mjs';

/** @import { SqlDriverAdapter } from '@prisma/driver-adapter-utils' */
/** @typedef {{ script: string, error: unknown }} FailedScript */

/** The SQLSTATE class of warnings; notices have another. */
const WARNING_CLASS = '01';

/**
 * What the migrations rely on, whatever the role, the database or the URL sets: the tables are in the schema `public`; each
 * statement sees what others have committed before it got its locks; and a policy that hides rows makes a statement fail.
 */
const SETTINGS =
  "SET search_path = 'public'; SET default_transaction_isolation = 'read committed'; SET row_security = 'off'";

/** Type OIDs of `"char"`, which the system catalogs use, and of its array. */
const TypeOid = Object.freeze({ singleByte: 18, singleByteArray: 1002 });

/**
 * One session, as the pool that `@prisma/adapter-pg` requires. It keeps its connection because the engine's advisory lock
 * belongs to the session: a plain pool replaces the connection after a failed query and loses the lock.
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
   * @param {(message: string) => void} [options.onWarning] receives warnings
   * @param {() => Promise<void>} [options.afterClose] runs after the session has ended
   */
  constructor(url, { onWarning, afterClose } = {}) {
    super({
      connectionString: url,
      connectionTimeoutMillis,
      max: 1,
      // The pool waits for the promise; its type says `void`.
      onConnect: (client) => /** @type {undefined} */ (/** @type {unknown} */ (client.query(SETTINGS))),
    });
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
      // The adapter does not map a lost connection, and the engine has no message for an unmapped error.
      throw error instanceof pg.DatabaseError ? error : new DriverAdapterError({ kind: 'ConnectionClosed' });
    }
  }

  /**
   * @param {(failure: FailedScript) => void} [onScriptError] receives what the adapter's error types lack
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

    // One simple query, which PostgreSQL runs as one transaction, as with the native engine. The adapter splits a script
    // at every semicolon, also inside function bodies and literals, and commits each part.
    adapter.executeScript = async (script) => {
      try {
        await this.#run(script);
      } catch (error) {
        onScriptError?.({ script, error });
        // With a code, the engine would replace the server's message by a generic one.
        throw rawQueryError(describeFailedScript({ script, error }));
      }
    };

    // The adapter would wait forever for a second connection. The engine uses no transactions on PostgreSQL.
    adapter.startTransaction = () => Promise.reject(new Error('The schema engine runs without transactions.'));
    adapter.dispose = () => this.close();
    return adapter;
  }

  /** Cancels the running statement. A script is one transaction, so it leaves no partial changes. */
  async cancel() {
    if (this.#running === 0) return;
    const { processID } = /** @type {{ processID?: number }} */ (/** @type {unknown} */ (await this.#connect()));
    await withClient(this.#url, (client) => client.query('SELECT pg_cancel_backend($1)', [processID]));
  }

  /** Ends the session. Further calls return the same promise. */
  close() {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close() {
    // When the engine stops waiting for its advisory lock, the statement still waits on the server.
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
      // The adapter rejects columns of type "char" but accepts its array, which the engine never reads. Such a column
      // passes through the adapter as an array and gets its type back in `queryRaw` above.
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
      // The next query reports a lost connection; without a listener the event would end the process.
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
 * The kind of adapter error whose message the engine prints unchanged.
 *
 * @param {string} message
 */
export function rawQueryError(message) {
  const absent = { detail: undefined, column: undefined, hint: undefined };
  return new DriverAdapterError({ kind: 'postgres', severity: 'ERROR', code: 'none', message, ...absent });
}
