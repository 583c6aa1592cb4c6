import { randomUUID } from 'node:crypto';
import { bindMigrationAwareSqlAdapterFactory, ColumnTypeEnum, DriverAdapterError } from '@prisma/driver-adapter-utils';
import pg from 'pg';
import { connect, createPrivateDatabase, dropDatabase, siblingUrl } from './database.mjs';
import { describe, describeFailedScript } from './errors.mjs';

/** @import { SqlDriverAdapter, SqlQuery } from '@prisma/driver-adapter-utils' */

/** The SQLSTATE class of warnings; notices have another. */
const WARNING_CLASS = '01';

/**
 * What the migrations rely on, whatever the role, the database or the URL sets: the tables are in the schema `public`; each
 * statement sees what others have committed before it got its locks; and a policy that hides rows makes a statement fail.
 * The engine reads times and definitions in one format. The server checks the connection, so that a statement that waits
 * for a lock ends with this process.
 */
const SETTINGS = `SET search_path = 'public'; SET default_transaction_isolation = 'read committed'; SET row_security = 'off';
  SET datestyle = 'ISO, MDY'; SET timezone = 'UTC'; SET quote_all_identifiers = 'off'; SET standard_conforming_strings = 'on';
  SET client_connection_check_interval = '1s'`;

/** Column types of the system catalogs and of Prisma's bookkeeping, by type OID; any other is text to the engine. */
const COLUMN_TYPES = new Map([
  [pg.types.builtins.BOOL, ColumnTypeEnum.Boolean],
  // `"char"`, which the system catalogs use.
  [pg.types.builtins.CHAR, ColumnTypeEnum.Character],
  [pg.types.builtins.INT2, ColumnTypeEnum.Int32],
  [pg.types.builtins.INT4, ColumnTypeEnum.Int32],
  [pg.types.builtins.INT8, ColumnTypeEnum.Int64],
  [pg.types.builtins.OID, ColumnTypeEnum.Int64],
  [pg.types.builtins.TIMESTAMPTZ, ColumnTypeEnum.DateTime],
  [1005, ColumnTypeEnum.Int32Array],
  [1007, ColumnTypeEnum.Int32Array],
  [1009, ColumnTypeEnum.TextArray],
]);

/** Parses as `pg` does, but leaves times, which are UTC, as text. */
const types = {
  /** @param {number} oid */
  getTypeParser: (oid) =>
    oid === pg.types.builtins.TIMESTAMPTZ
      ? (/** @type {string} */ text) => text.replace(' ', 'T').replace(/\+00$/, '+00:00')
      : pg.types.getTypeParser(oid),
};

/**
 * Connects the engine to the database, and to a temporary shadow database in which it replays the migrations.
 *
 * @param {string} url
 * @param {object} listeners
 * @param {(close: () => Promise<void>) => void} listeners.onOpen receives what closes each connection
 * @param {(script: string, error: unknown) => void} listeners.onScriptError receives failures of scripts in the database
 * @param {(message: string) => void} listeners.onWarning receives warnings of the database
 */
export function createAdapterFactory(url, { onOpen, onScriptError, onWarning }) {
  return bindMigrationAwareSqlAdapterFactory({
    provider: 'postgres',
    adapterName: '@prisma/adapter-pg',
    async connect() {
      const client = await connect(url);
      client.on('notice', ({ code, message = '' }) => {
        if (code?.startsWith(WARNING_CLASS)) onWarning(message);
      });
      const adapter = await openAdapter(client, { onScriptError });
      onOpen(adapter.dispose);
      return adapter;
    },
    async connectToShadowDb() {
      const shadowUrl = siblingUrl(url, `prisma_migrate_shadow_db_${randomUUID()}`);
      try {
        await createPrivateDatabase(shadowUrl);
        const adapter = await openAdapter(await connect(shadowUrl), { afterClose: () => dropDatabase(shadowUrl) });
        onOpen(adapter.dispose);
        return adapter;
      } catch (error) {
        // It may be there already.
        await dropDatabase(shadowUrl).catch(() => {});
        throw plainError(`Cannot create the shadow database to replay the migrations. ${describe(error)}`);
      }
    },
  });
}

/**
 * One session of the server, to which the engine's advisory lock belongs.
 *
 * @param {pg.Client} client
 * @param {object} options
 * @param {(script: string, error: unknown) => void} [options.onScriptError] receives what the engine's error types lack
 * @param {() => Promise<void>} [options.afterClose] runs once, after the session has ended
 * @returns {Promise<SqlDriverAdapter>}
 */
async function openAdapter(client, { onScriptError, afterClose }) {
  await client.query(SETTINGS);
  /** @param {SqlQuery} query */
  const query = async ({ sql, args }) => {
    try {
      return await client.query({ text: sql, values: args, rowMode: 'array', types });
    } catch (error) {
      throw toDriverError(error);
    }
  };
  /** @type {Promise<void> | undefined} */
  let closed;
  return {
    provider: 'postgres',
    adapterName: '@prisma/adapter-pg',
    async queryRaw(parameters) {
      const { fields, rows } = await query(parameters);
      return {
        columnNames: fields.map(({ name }) => name),
        columnTypes: fields.map(({ dataTypeID }) => COLUMN_TYPES.get(dataTypeID) ?? ColumnTypeEnum.Text),
        rows,
      };
    },
    executeRaw: async (parameters) => (await query(parameters)).rowCount ?? 0,
    // One simple query, which PostgreSQL runs as one transaction, as with the native engine.
    async executeScript(script) {
      try {
        await client.query(script);
      } catch (error) {
        onScriptError?.(script, error);
        // With a code, the engine would replace the server's message by a generic one.
        throw plainError(describeFailedScript(script, error));
      }
    },
    startTransaction: () => Promise.reject(new Error('The schema engine runs without transactions.')),
    dispose() {
      closed ??= client.end().then(afterClose);
      return closed;
    },
  };
}

/** @param {unknown} error */
function toDriverError(error) {
  if (!(error instanceof pg.DatabaseError)) return new DriverAdapterError({ kind: 'ConnectionClosed' });
  const { severity = 'ERROR', code = 'none', message, detail, column, hint } = error;
  return new DriverAdapterError({ kind: 'postgres', severity, code, message, detail, column, hint });
}

/**
 * The kind of adapter error whose message the engine prints unchanged.
 *
 * @param {string} message
 */
function plainError(message) {
  const absent = { detail: undefined, column: undefined, hint: undefined };
  return new DriverAdapterError({ kind: 'postgres', severity: 'ERROR', code: 'none', message, ...absent });
}
