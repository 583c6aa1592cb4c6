import { randomUUID } from 'node:crypto';
import { bindMigrationAwareSqlAdapterFactory, ColumnTypeEnum, DriverAdapterError } from '@prisma/driver-adapter-utils';
import pg from 'pg';
import { connect, onServer, siblingUrl } from './database.mjs';

/** @import { SqlDriverAdapter, SqlQuery } from '@prisma/driver-adapter-utils' */

/**
 * What the migrations rely on, whatever the role, the database or the URL sets: the tables are in the schema `public`; each
 * statement sees what others have committed before it got its locks; and a policy that hides rows makes a statement fail.
 * The engine reads times and definitions in one format. The server checks the connection, so that a statement that waits
 * for a lock ends with this process.
 */
const SETTINGS = `SET search_path = 'public'; SET default_transaction_isolation = 'read committed'; SET row_security = 'off';
  SET datestyle = 'ISO, MDY'; SET timezone = 'UTC'; SET quote_all_identifiers = 'off'; SET standard_conforming_strings = 'on';
  SET client_connection_check_interval = '1s'`;

const { BOOL, CHAR, INT2, INT4, INT8, OID, TIMESTAMPTZ } = pg.types.builtins;
/** Types of the system catalogs, some of which `@prisma/adapter-pg` cannot read; any other is text to the engine. */
const COLUMN_TYPES = new Map([
  [BOOL, ColumnTypeEnum.Boolean],
  // `"char"`
  [CHAR, ColumnTypeEnum.Character],
  [INT2, ColumnTypeEnum.Int32],
  [INT4, ColumnTypeEnum.Int32],
  [INT8, ColumnTypeEnum.Int64],
  [OID, ColumnTypeEnum.Int64],
  [TIMESTAMPTZ, ColumnTypeEnum.DateTime],
  [1005, ColumnTypeEnum.Int32Array],
  [1007, ColumnTypeEnum.Int32Array],
  [1009, ColumnTypeEnum.TextArray],
]);

/** Parses as `pg` does, but leaves times, which are UTC, as text. */
const types = {
  /** @param {number} oid */
  getTypeParser: (oid) =>
    oid === TIMESTAMPTZ
      ? (/** @type {string} */ text) => text.replace(' ', 'T').replace(/\+00$/, '+00:00')
      : pg.types.getTypeParser(oid),
};

/**
 * Connects the engine to the database, and to a temporary shadow database in which it replays the migrations.
 *
 * @param {string} url
 * @param {(message: string) => void} onWarning receives warnings of the database
 */
export function createAdapterFactory(url, onWarning) {
  return bindMigrationAwareSqlAdapterFactory({
    provider: 'postgres',
    adapterName: '@prisma/adapter-pg',
    async connect() {
      const client = await connect(url);
      client.on('notice', ({ severity, message = '' }) => severity === 'WARNING' && onWarning(message));
      return openAdapter(client);
    },
    async connectToShadowDb() {
      const name = `prisma_migrate_shadow_db_${randomUUID()}`;
      await onServer(url, `CREATE DATABASE "${name}" TEMPLATE template0`);
      // FORCE: the server may not have noticed yet that the connection is closed.
      const drop = () => onServer(url, `DROP DATABASE "${name}" WITH (FORCE)`);
      return openAdapter(await connect(siblingUrl(url, name)), drop);
    },
  });
}

/**
 * One session of the server, to which the engine's advisory lock belongs.
 *
 * @param {pg.Client} client
 * @param {() => Promise<void>} [afterClose]
 * @returns {Promise<SqlDriverAdapter>}
 */
async function openAdapter(client, afterClose) {
  await client.query(SETTINGS);
  /** @param {SqlQuery} query */
  const query = ({ sql, args }) =>
    client.query({ text: sql, values: args, rowMode: 'array', types }).catch((error) => {
      throw driverError(error);
    });
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
      await client.query(script).catch((error) => {
        // With a code, the engine would replace the server's message by a generic one.
        throw driverError({ ...error, code: 'none', message: describe(script, error) });
      });
    },
    startTransaction: () => Promise.reject(new Error('The schema engine runs without transactions.')),
    async dispose() {
      await client.end();
      await afterClose?.();
    },
  };
}

/** @param {Partial<pg.DatabaseError>} error */
function driverError({ severity = 'ERROR', code = 'none', message = '', detail, column, hint }) {
  return new DriverAdapterError({ kind: 'postgres', severity, code, message, detail, column, hint });
}

/**
 * @param {string} script
 * @param {pg.DatabaseError} error
 * @returns {string} the error with what the engine would leave out: its code, its detail, its hint and the line of the script
 */
function describe(script, { message, code, detail, hint, position }) {
  const line = position && `LINE ${script.slice(0, Number(position) - 1).split('\n').length} of the script`;
  return [`${message} (${code})`, detail, hint, line].filter(Boolean).join('\n');
}
