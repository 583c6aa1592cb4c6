import { randomUUID } from 'node:crypto';
import { bindMigrationAwareSqlAdapterFactory, ColumnTypeEnum } from '@prisma/driver-adapter-utils';
import { createDatabase, dropDatabase, siblingUrl } from './database.mjs';
import { rawQueryError, Session } from './session.mjs';
import { describe } from './user-facing-error.mjs';

/** @import { SqlDriverAdapter } from '@prisma/driver-adapter-utils' */
/** @import { FailedScript } from './session.mjs' */

/**
 * Connects the engine to the database, and to a temporary shadow database in which it replays the migrations.
 *
 * @param {string} url
 * @param {object} listeners
 * @param {(session: Session) => void} listeners.onSession receives every session, shadow databases included
 * @param {(failure: FailedScript) => void} listeners.onScriptError receives failures of scripts in the database (not the shadow database)
 * @param {(message: string) => void} listeners.onWarning receives warnings of the database (not the shadow database)
 */
export function createAdapterFactory(url, { onSession, onScriptError, onWarning }) {
  return bindMigrationAwareSqlAdapterFactory({
    provider: 'postgres',
    adapterName: '@prisma/adapter-pg',
    connect() {
      const session = new Session(url, { onWarning });
      onSession(session);
      return session.toAdapter(onScriptError);
    },
    async connectToShadowDb() {
      const shadowUrl = siblingUrl(url, `prisma_migrate_shadow_db_${randomUUID()}`);
      await createDatabase(shadowUrl).catch((error) => {
        throw rawQueryError(`Cannot create the shadow database to replay the migrations. ${describe(error)}`);
      });
      const session = new Session(shadowUrl, { afterClose: () => dropDatabase(shadowUrl) });
      onSession(session);
      return session.toAdapter();
    },
  });
}

/** Supports only the version query that the engine sends on connecting: comparing schema files needs no database. */
export function createOfflineAdapterFactory() {
  const reject = () => Promise.reject(new Error('This command needs a database: set DATABASE_URL.'));
  /** @type {SqlDriverAdapter} */
  const adapter = {
    provider: 'postgres',
    adapterName: 'offline',
    queryRaw: () =>
      Promise.resolve({
        columnNames: ['exists', 'version', 'numeric_version'],
        columnTypes: [ColumnTypeEnum.Boolean, ColumnTypeEnum.Text, ColumnTypeEnum.Int32],
        rows: [[true, 'PostgreSQL 18', 180000]],
      }),
    executeRaw: reject,
    executeScript: reject,
    startTransaction: reject,
    dispose: () => Promise.resolve(),
  };
  return bindMigrationAwareSqlAdapterFactory({
    provider: adapter.provider,
    adapterName: adapter.adapterName,
    connect: () => Promise.resolve(adapter),
    connectToShadowDb: reject,
  });
}
